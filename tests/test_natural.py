"""The natural set: its questions, its answers, and how their citations are judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.tiny_models import byte_level

from attribot_rag import Document
from attribot_rag.context import DocumentSpan
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import Question, prepare
from benchmarks.labelled.row_cache import RowStore
from benchmarks.natural.answers import TEMPLATE
from benchmarks.natural.truth import PromptRows, Truth, truth_of

FOG, DOOR, TOWER = "Fog is rare.", "The door is mint.", "The tower is 18 metres high."
DOCUMENTS = (Document(f"{FOG} {DOOR}"), Document(TOWER))
FOG_SPAN, DOOR_SPAN = DocumentSpan(0, 0, 13), DocumentSpan(0, 13, 30)
TOWER_SPAN = DocumentSpan(1, 0, 28)
SOURCES = [[FOG_SPAN], [DOOR_SPAN], [TOWER_SPAN]]
WHOLE = frozenset({FOG, DOOR, TOWER})
ONLY_DOOR, NO_DOOR = frozenset({DOOR}), frozenset({FOG, TOWER})


def question() -> Question:
    return prepare(Example("made/up", "Which door?", DOCUMENTS), byte_level(), TEMPLATE, 8)


@pytest.mark.parametrize(
    ("kept", "removed", "context"),
    [
        (SOURCES[0] + SOURCES[1] + SOURCES[2], [], f"{FOG} {DOOR}\n\n{TOWER}"),
        ([DOOR_SPAN, TOWER_SPAN], [FOG_SPAN], f"{DOOR}\n\n{TOWER}"),
        ([], [TOWER_SPAN, FOG_SPAN, DOOR_SPAN], ""),
    ],
)
def test_a_row_is_that_of_the_prompt_with_the_other_parts_left_out(
    tmp_path: Path, kept: list[DocumentSpan], removed: list[DocumentSpan], context: str
) -> None:
    language_model = byte_level()
    response_ids = language_model.encode("The door is mint.")
    text = (
        "<|im_start|>user\nAnswer the question based on the provided context:\n\nContext:\n"
        f"{context}\n\nQuestion: Which door?<|im_end|>\n<|im_start|>assistant\n"
    )
    prompt_ids = language_model.encode(text, special=True)
    with torch.inference_mode():
        logits = language_model.model(torch.tensor([[*prompt_ids, *response_ids]])).logits[0]
    by_hand = [
        logits[len(prompt_ids) + index - 1].log_softmax(-1)[token_id].item()
        for index, token_id in enumerate(response_ids)
    ]
    store = RowStore(tmp_path)
    rows = PromptRows(question(), response_ids, store)
    assert rows.only(kept).tolist() == pytest.approx(by_hand, abs=1e-4)
    assert rows.without(removed).tolist() == pytest.approx(by_hand, abs=1e-4)
    assert (store.new, store.known) == (1, 1)


@dataclass(frozen=True)
class WrittenRows(PromptRows):
    """Rows by the sentences that are in the prompt, instead of a model's."""

    written: Mapping[frozenset[str], list[float]]

    def _score(self, prompt_ids: tuple[int, ...]) -> torch.Tensor:
        text = byte_level().decode(prompt_ids)
        return torch.tensor(self.written[frozenset(part for part in WHOLE if part in text)])


CITED, MISSED = [DOOR_SPAN], list[DocumentSpan]()
NO_TOWER = frozenset({FOG, DOOR})
OTHERS = {frozenset({FOG}): -9.0, frozenset({TOWER}): -7.0, NO_DOOR: -1.0, NO_TOWER: -0.5}
LIKELIEST = (SOURCES[1], SOURCES[2])


@pytest.mark.parametrize(
    ("cited", "nothing", "values", "expected"),
    [
        (CITED, -20.0, {ONLY_DOOR: -6.0}, Truth(20.0, 6.0)),
        (CITED, -20.0, {ONLY_DOOR: -6.5, NO_DOOR: -3.5}, Truth(20.0, 6.5, 3.5, is_false=True)),
        (MISSED, -5.5, {NO_DOOR: -3.75, NO_TOWER: 1.0}, Truth(5.5, effect=3.75)),
        (MISSED, -0.5, {NO_DOOR: -4.0, NO_TOWER: 1.0}, Truth(0.5, effect=4.0, is_caused=True)),
        (MISSED, -10.0, {ONLY_DOOR: -2.0, **OTHERS}, Truth(10.0, 2.0, 1.0, is_carried=True)),
        (MISSED, -10.0, {ONLY_DOOR: -2.5, **OTHERS}, Truth(10.0, 2.5, 1.0)),
    ],
)
def test_a_citation_suffices_or_is_necessary_and_a_missed_cause_suffices_or_is_decisive(
    tmp_path: Path,
    cited: list[DocumentSpan],
    nothing: float,
    values: dict[frozenset[str], float],
    expected: Truth,
) -> None:
    """Of the middle of three tokens; the others change otherwise."""
    written = {WHOLE: 0.0, frozenset[str](): nothing, **values}
    rows = {kept: [value * 3, value, 5.0] for kept, value in written.items()}
    response_ids = byte_level().encode("abc")[:3]
    prompt_rows = WrittenRows(question(), response_ids, RowStore(tmp_path), rows)
    assert truth_of(prompt_rows, range(1, 2), cited, SOURCES, lambda: LIKELIEST) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({ONLY_DOOR: -3.0}, Truth(10.0, 3.0)),
        ({**OTHERS, ONLY_DOOR: -3.5, frozenset({FOG}): -2.0}, Truth(10.0, 2.0, 1.0, False, True)),
        ({**OTHERS, ONLY_DOOR: -3.5, NO_TOWER: -4.0}, Truth(10.0, 3.5, 4.0, False, False, True)),
    ],
)
def test_what_follows_misses_no_cause_if_the_sources_of_the_other_sentence_are_true_of_it(
    tmp_path: Path, values: dict[frozenset[str], float], expected: Truth
) -> None:
    rows = {kept: [value] for kept, value in {WHOLE: 0.0, frozenset(): -10.0, **values}.items()}
    given = WrittenRows(question(), byte_level().encode("a")[:1], RowStore(tmp_path), rows)
    truth = truth_of(given, range(1), CITED, SOURCES, lambda: LIKELIEST, is_direct=False)
    assert truth == expected
