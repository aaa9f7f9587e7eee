"""The real model, hand-written questions: the sentence that states the answer ranks first.

The sets were written before the first run and are never exchanged. Each holds documents about one
invented entity, full of look-alikes, and the answer that one sentence in them states.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attribot_rag import Attribution, Attributor, Document, LanguageModel
from attribot_rag.attributor.answered import rag_prompt

SETS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "sense_sets.json").read_text(encoding="utf-8")
)


@pytest.fixture(
    scope="module", params=[pytest.param("leave_one_out", marks=pytest.mark.long), "auto"]
)
def attributed(
    request: pytest.FixtureRequest, smollm2: LanguageModel
) -> list[tuple[dict[str, Any], Attribution]]:
    return list(attribute_all(smollm2, request.param))


def attribute_all(
    language_model: LanguageModel, method: str
) -> Iterator[tuple[dict[str, Any], Attribution]]:
    model, tokenizer = language_model.model, language_model.tokenizer
    attributor = Attributor(model, tokenizer, method=method, verdicts=None, progress=False)
    for one in SETS:
        documents = [Document(document["text"], document["id"]) for document in one["documents"]]
        prompt = rag_prompt(one["question"], documents, chat=True)
        yield one, attributor.attribute(prompt, one["answer"], documents)


def causing(one: dict[str, Any]) -> set[str]:
    return {cause["sentence"] for cause in one["causes"]}


@pytest.mark.slow
def test_the_causing_sentence_ranks_first(
    attributed: list[tuple[dict[str, Any], Attribution]],
) -> None:
    single = [(one, found) for one, found in attributed if one["kind"] == "single"]
    missed = [one["id"] for one, found in single if found.top(1)[0].source.text not in causing(one)]
    assert len(single) == 22
    assert len(missed) <= 2, missed


@pytest.mark.slow
def test_a_fact_that_is_present_twice_is_credited_to_both_documents(
    attributed: list[tuple[dict[str, Any], Attribution]],
) -> None:
    twice = [(one, found) for one, found in attributed if one["kind"] == "twice"]
    assert len(twice) == 5
    for one, found in twice:
        best = found.top(1)[0].source
        assert best.text in causing(one)
        credited = {found.documents[index].id for index in best.documents}
        assert credited == {cause["document"] for cause in one["causes"]}
