"""Hand-written answers with the verdicts that each of their sentences should get."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attribot_rag import Attribution, Attributor, Document
from attribot_rag.attribution import Verdict
from attribot_rag.attributor.prompts import rag_prompt

DATA = Path(__file__).parents[1] / "data" / "verdict_cases.json"
CASES: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))["cases"]


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


def is_right(attribution: Attribution, case: Mapping[str, Any]) -> bool:
    """Verdicts, cited documents and the audit of the model's markers are the expected ones."""
    verdicts = [
        (verdict.kind, cited(attribution, verdict), verdict.follows)
        for verdict in attribution.verdicts
    ]
    expected = [
        (label["verdict"], set(itertools.chain.from_iterable(label["documents"])), label["follows"])
        for label in case["expected"]
    ]
    markers = [(marker.number, marker.supported) for marker in attribution.markers]
    return verdicts == expected and markers == [
        (label["marker"], label["honest"]) for label in case.get("markers", ())
    ]


def cited(attribution: Attribution, verdict: Verdict) -> set[int]:
    return {document for i in verdict.source_ids for document in attribution.sources[i].documents}
