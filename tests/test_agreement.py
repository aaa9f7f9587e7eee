"""Causes and what a reader cites, sentence by sentence, and what is counted of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.attributions import handmade, verdicts_of
from support.tiny_models import byte_level

from attribot_rag import Attribution, Document
from attribot_rag.context import DocumentSpan
from benchmarks.agreement.sentences import PairedAnswer, PairedSentence, paired_sentences, table
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import prepare
from benchmarks.labelled.row_cache import RowStore
from benchmarks.natural.answers import TEMPLATE
from benchmarks.natural.truth import PromptRows

DOOR, FOG = "The door is mint.", "Fog is rare."
ANSWER = "The door is mint. It is mint. Fog is rare. And"
DOOR_AT = frozenset({DocumentSpan(0, 0, len(DOOR))})
FOG_AT = frozenset({DocumentSpan(1, 0, len(FOG))})
NONE = frozenset[DocumentSpan]()
GROUNDED = {"kind": "grounded", "source_ids": (0,)}
UNSUPPORTED = {"kind": "unsupported"}


@dataclass(frozen=True)
class OnlyTheDoorMatters(PromptRows):
    """Rows by hand, instead of a model's: each token loses 3 nats without the door."""

    def _score(self, prompt_ids: tuple[int, ...]) -> torch.Tensor:
        loss = 0.0 if DOOR in byte_level().decode(prompt_ids) else -3.0
        return torch.full((len(self.response_ids),), loss)


@pytest.fixture
def rows(tmp_path: Path) -> PromptRows:
    documents = Document(DOOR), Document(FOG)
    question = prepare(Example("made/up", "Which door?", documents), byte_level(), TEMPLATE, 8)
    return OnlyTheDoorMatters(question, tuple(range(len(ANSWER.split()))), RowStore(tmp_path))


def attribution(
    *verdicts: Mapping[str, object], order: tuple[str, str] = (DOOR, FOG)
) -> Attribution:
    scores = {text: (0.0,) * len(verdicts) for text in order}
    return handmade(ANSWER, [DOOR, FOG], scores, verdicts=verdicts_of(ANSWER, *verdicts))


def test_citations_are_compared_by_place_and_judged_by_the_model_that_answered(
    rows: PromptRows,
) -> None:
    follows = {"kind": "follows", "follows": 0}
    cut = {"kind": "open", "reason": "cut"}
    causes = attribution(GROUNDED, follows, UNSUPPORTED, cut)
    read = attribution(
        {**GROUNDED, "source_ids": (1,)},  # its other sources come first
        {**GROUNDED, "source_ids": (1, 0)},
        GROUNDED,
        GROUNDED,
        order=(FOG, DOOR),
    )
    assert [*paired_sentences(causes, read, rows)] == [
        PairedSentence("The door is mint.", DOOR_AT, DOOR_AT),
        PairedSentence("It is mint.", DOOR_AT, DOOR_AT | FOG_AT),
        PairedSentence("Fog is rare.", NONE, FOG_AT, is_false=True),
    ]


def test_shares_are_of_all_sentences_or_of_those_that_have_citations() -> None:
    sentences = (
        PairedSentence("Same.", DOOR_AT, DOOR_AT),
        PairedSentence("More.", DOOR_AT, DOOR_AT | FOG_AT),
        PairedSentence("Only read.", NONE, FOG_AT, is_false=True),
        PairedSentence("Only caused.", FOG_AT, NONE),
        PairedSentence("Neither.", NONE, NONE),
    )
    written = table([PairedAnswer("squad", sentences), PairedAnswer("hotpotqa", sentences[:1])])
    cells = {
        name.strip(): [cell.partition(" (")[0].strip() for cell in columns]
        for _, name, *columns, _ in (line.split("|") for line in written.splitlines())
    }
    assert cells == {
        "": ["all", "squad", "hotpotqa"],
        "---": ["---", "---", "---"],
        "answers": ["2", "1", "1"],
        "sentences": ["6", "5", "1"],
        "a cause is cited": ["4 of 6", "3 of 5", "1 of 1"],
        "the reader cites": ["4 of 6", "3 of 5", "1 of 1"],
        "the same citations, or none": ["3 of 6", "2 of 5", "1 of 1"],
        "where both cite: the same": ["2 of 3", "1 of 2", "1 of 1"],
        "where both cite: a source in common": ["3 of 3", "2 of 2", "1 of 1"],
        "a cause is cited: the reader cites none": ["1 of 4", "1 of 3", "0 of 1"],
        "the reader cites: no cause is cited": ["1 of 4", "1 of 3", "0 of 1"],
        "the reader cites: other sources than the causes": ["1 of 4", "1 of 3", "0 of 1"],
        "the reader cites: false by plain passes": ["1 of 4", "1 of 3", "0 of 1"],
    }
