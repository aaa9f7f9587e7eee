"""The real model, hand-written questions: the sentence that states the answer ranks first.

The sets were written before the first run and are never exchanged. Each holds documents about one
invented entity, full of look-alikes, and the answer that one sentence in them states.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attribot_rag import Attribution, Attributor, Document, LocalModel
from attribot_rag.attributor.prompts import rag_prompt

SETS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "sense_sets.json").read_text(encoding="utf-8")
)


pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["auto"])
def attributed(
    request: pytest.FixtureRequest, smollm2: LocalModel
) -> list[tuple[dict[str, Any], Attribution]]:
    return list(attribute_all(smollm2, request.param))


def attribute_all(
    language_model: LocalModel, method: str
) -> Iterator[tuple[dict[str, Any], Attribution]]:
    model, tokenizer = language_model.model, language_model.tokenizer
    attributor = Attributor(model, tokenizer, method=method, verdicts=None, progress=False)
    for case in SETS:
        documents = [Document(document["text"], document["id"]) for document in case["documents"]]
        prompt = rag_prompt(case["question"], documents, chat=True)
        yield case, attributor.attribute(prompt, case["answer"], documents)


def causing(case: dict[str, Any]) -> set[str]:
    return {cause["sentence"] for cause in case["causes"]}


def test_the_causing_sentence_ranks_first(
    attributed: list[tuple[dict[str, Any], Attribution]],
) -> None:
    single = [(case, result) for case, result in attributed if case["kind"] == "single"]
    missed = [
        case["id"] for case, result in single if result.top(1)[0].source.text not in causing(case)
    ]
    assert len(single) == 22
    assert len(missed) <= 2, missed


def test_a_fact_that_is_present_twice_is_credited_to_both_documents(
    attributed: list[tuple[dict[str, Any], Attribution]],
) -> None:
    twice = [(case, result) for case, result in attributed if case["kind"] == "twice"]
    assert len(twice) == 5
    for case, result in twice:
        best = result.top(1)[0].source
        assert best.text in causing(case)
        credited = {result.documents[index].id for index in best.documents}
        assert credited == {cause["document"] for cause in case["causes"]}
