"""The real model, hand-written answers: each sentence gets the verdict that it was written for.

Only the held-out half is used here; no threshold was chosen on it. Each floor lies a little below
what was measured once.
"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attribot_rag import Attribution, Attributor, Document, LanguageModel
from attribot_rag.attribution import Verdict
from attribot_rag.prompting import rag_prompt

DATA = Path(__file__).parent.parent / "data" / "verdict_cases.json"
CASES: list[dict[str, Any]] = [
    case
    for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]
    if case["split"] == "held_out"
]
# "together" is left out: it asks for an inference over two documents, where so small a model
# really answers from one of them.
FLOORS: Mapping[str, float] = {
    "one_source": 0.6,
    "paraphrased_twice": 0.8,
    "two_facts": 0.5,
    "memory": 0.8,
    "made_up_marker": 0.8,
    "restated": 0.6,
    "small_talk": 0.6,
    "conversation": 0.6,
}


def attribute(attributor: Attributor, case: Mapping[str, Any]) -> Attribution:
    """The case's own messages, or the prompt of `ask`."""
    documents = [Document(text) for text in case["documents"]]
    if "messages" not in case:
        prompt = rag_prompt(case["question"], documents, chat=True)
        return attributor.attribute(prompt, case["answer"], documents)
    joined = "\n\n".join(case["documents"])
    messages = [
        {**message, "content": message["content"].replace("{documents}", joined)}
        for message in case["messages"]
    ]
    return attributor.attribute(messages, case["answer"], documents)


def is_right(found: Attribution, case: Mapping[str, Any]) -> bool:
    """Verdicts, cited documents and the audit of the model's markers are the expected ones."""
    verdicts = [(one.kind, cited(found, one), one.follows) for one in found.verdicts]
    expected = [
        (one["verdict"], set(itertools.chain.from_iterable(one["documents"])), one["follows"])
        for one in case["expected"]
    ]
    markers = [(one.number, one.supported) for one in found.markers]
    return verdicts == expected and markers == [
        (one["marker"], one["honest"]) for one in case.get("markers", ())
    ]


def cited(found: Attribution, verdict: Verdict) -> set[int]:
    return {document for one in verdict.source_ids for document in found.sources[one].documents}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOORS)
def test_verdicts_of_held_out_cases(kind: str, smollm2: LanguageModel) -> None:
    attributor = Attributor(smollm2.model, smollm2.tokenizer, progress=False)
    cases = [case for case in CASES if case["kind"] == kind]
    assert len(cases) >= 3
    wrong = [case["id"] for case in cases if not is_right(attribute(attributor, case), case)]
    assert 1 - len(wrong) / len(cases) >= FLOORS[kind], wrong
