"""Earlier answers of models in the same run, as documents of later prompts."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from attribot_rag.context import Document, texts_in_prompt
from attribot_rag.context.text import find_all, single_spaced
from attribot_rag.errors import DocumentsNotLocated
from attribot_rag.model.chat_messages import is_message, message_text
from attribot_rag.recording import Answer
from attribot_rag.runtime.runs import AttributedRun

_TITLE = "earlier answer"
_MAX_CHOICE = 24  # characters of an answer that may be a word the prompt let the model choose
_LACKING = (
    "{} of the {} earlier answers in this prompt have no attribution: sentences that come from "
    "them cite them, and no documents. {}"
)


def document_of(run: AttributedRun) -> Document:
    """A run's answer as a document of a later prompt, with the run's id."""
    return Document(text_of(run), run.run_id, {"title": run.question or _TITLE})


def read_by(
    prompt: str, documents: Sequence[str], earlier: Sequence[AttributedRun] = ()
) -> tuple[list[int], list[AttributedRun]]:
    """The documents and earlier answers that a prompt contains: indices, and runs in order.

    An earlier answer counts if its text is not part of a longer document or answer there. If
    several answers have the same text, the last ones count, one for each place. An answer that only
    chose a word of its prompt, such as yes or no, does not count. If no answer stands there as a
    whole, answers that stand in part or in another form count.
    """
    plain = single_spaced(prompt)
    answers: dict[str, list[AttributedRun]] = defaultdict(list)
    for run in earlier:
        text = single_spaced(text_of(run))
        if any(map(str.isalnum, text)) and not _is_choice(run, text):
            answers[text].append(run)
    spaced = [single_spaced(document) for document in documents]
    places = _num_places(plain, spaced, answers)
    hidden = {
        text for text in spaced if text in plain and places[text] <= len(answers.get(text, ()))
    }
    kept = [text for text, key in zip(documents, spaced, strict=True) if key not in hidden]
    whole = [text_of(run) for text in answers if places[text] for run in answers[text]]
    is_changed = not any(places.values())
    absent = [runs for text, runs in answers.items() if text not in plain]
    changed = {text_of(runs[-1]) for runs in absent} if is_changed else set()
    present = texts_in_prompt(prompt, {*kept, *whole, *changed})
    indices = [
        index
        for index, text in enumerate(documents)
        if text in present and spaced[index] not in hidden
    ]
    read: set[str] = set()
    for text, runs in answers.items():
        num_places = places[text] or (text_of(runs[-1]) in changed & present)
        read.update(run.run_id for run in runs[-num_places:] if num_places)
    return indices, [run for run in earlier if run.run_id in read]


def _num_places(plain: str, documents: Collection[str], answers: Collection[str]) -> dict[str, int]:
    """How many places of each text the prompt has.

    Places within a longer text do not count, and places of a document within an answer.
    """
    places: dict[str, int] = {}
    taken: list[tuple[int, int]] = []
    by_answers: list[tuple[int, int]] = []
    for text in sorted({*documents, *answers}, key=len, reverse=True):
        is_answer = text in answers
        outer = taken if is_answer else by_answers
        at = [
            (start, end)
            for start in find_all(plain, text)
            for end in [start + len(text)]
            if not any(first <= start and end <= last for first, last in outer)
            and not (is_answer and _is_cut(plain, start, end))
        ]
        places[text] = len(at)
        taken += at
        by_answers += at if is_answer else []
    return places


def _is_cut(plain: str, start: int, end: int) -> bool:
    """Whether [start, end) begins or ends within a word or number."""
    edges = ((start - 1, start), (end - 1, end))
    return any(
        before >= 0 and after < len(plain) and _joins(plain[before]) and _joins(plain[after])
        for before, after in edges
    )


def _joins(character: str) -> bool:
    """Whether the character forms words with its neighbours: digits, letters with two cases."""
    return character.isdigit() or character.lower() != character.upper()


def _is_choice(run: AttributedRun, text: str) -> bool:
    """Whether a short answer stands in its own prompt, outside of the documents."""
    prompt = run.answer.prompt
    if len(text) > _MAX_CHOICE or prompt is None:
        return False
    parts = [prompt] if isinstance(prompt, str) else map(message_text, filter(is_message, prompt))
    documents = [single_spaced(Document.of(document).text) for document in run.answer.read]
    return _num_places(single_spaced(" ".join(parts)), documents, [text])[text] > 0


def text_of(run: AttributedRun) -> str:
    """The run's answer, without a prompt before it, or the text that was shown instead."""
    return (run.shown or run.text[run.answer.start :]).strip()


def made_of(run: AttributedRun, earlier: Iterable[AttributedRun]) -> AttributedRun:
    """The run with the earlier answers that its prompt contains, and with those that they were made
    of.

    All are of the same root. A note says which of them have no attribution.
    """
    direct = list(earlier)
    if not direct:
        return run
    runs: dict[str, AttributedRun] = {}
    for part in direct:
        if part.root_id == run.root_id:
            runs.update((inner.run_id, inner) for inner in part.all_earlier())
        runs[part.run_id] = part
    lacking = [part.error for part in direct if part.attribution is None]
    notes = run.answer.notes
    if lacking:
        told = next((f"{type(error).__name__}: {error}" for error in lacking if error), "")
        notes = (*notes, _LACKING.format(len(lacking), len(direct), told).strip())
    return replace(run, answer=replace(run.answer, notes=notes), earlier=tuple(runs.values()))


def not_composed(answer: Answer) -> DocumentsNotLocated:
    """The error if a prompt contains neither the answer's documents nor earlier answers."""
    return DocumentsNotLocated(
        f"neither the {len(answer.documents)} documents nor the {answer.num_before} answers that "
        "models gave before this one stand in its prompt: a step between changed their texts, or "
        "passed them on as the assistant's turns. Pass them on as they are, or say which texts "
        "were put into this prompt, as documents that were retrieved"
    )


def all_done(futures: Sequence[Future[Any]]) -> Future[None]:
    """A future that is done, without a result, when all of these are."""
    done: Future[None] = Future()
    left = [len(futures)]
    counting = threading.Lock()

    def count(_: object) -> None:
        with counting:
            left[0] -= 1
            is_last = not left[0]
        if is_last:
            done.set_result(None)

    for future in futures:
        future.add_done_callback(count)
    return done
