"""The documents and earlier answers in reach of a model's call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from attribot_rag.context import Document
from attribot_rag.runtime.attributed_run import AttributedRun
from attribot_rag.runtime.document_lists import are_versions, by_text, in_prompt, merge_documents
from attribot_rag.runtime.earlier_answers import read_by
from attribot_rag.runtime.steps import Step, Steps

Answers = Iterable[tuple[int, AttributedRun]]
"""Answers of models, each with the tick at which it came."""

_MADE_SHARE = 0.5
_MAX_LOOSE = 1024


@dataclass(frozen=True)
class Reading:
    """The `documents` and `earlier` answers in the prompt of one call.

    With earlier answers, `retrieved` are all documents in reach. `num_before` is the number of
    answers that came before within the root.
    """

    documents: Sequence[Any] = ()
    earlier: Sequence[AttributedRun] = ()
    retrieved: Sequence[Any] = ()
    num_before: int = 0


class Reach:
    """Finds the documents and answers in a call's prompt, by the steps around the call.

    With `loose`, steps without parent are taken as those of one script: what they retrieve and
    answer is in reach of every later call without parent whose prompt has it.
    """

    def __init__(self, steps: Steps, *, loose: bool = False) -> None:
        self._steps = steps
        self._loose = loose
        self.loose_documents: deque[Any] = deque(maxlen=_MAX_LOOSE)
        self._loose_answers: deque[tuple[int, AttributedRun]] = deque(maxlen=_MAX_LOOSE)

    def reading(self, step: Step, prompt: str, *, shares: bool = False) -> Reading:
        """The documents and answers that stand, or may stand, in a call's prompt.

        Of documents that it `shares` with other calls, only those in the prompt count.
        """
        before = [(tick, run) for tick, run in self._answers_of(step) if tick < step.begun]
        answers = [run for _, run in before]
        if not answers or not read_by(prompt, (), answers)[1]:
            documents = self._documents_for(step, prompt, shares)
            return Reading(documents, num_before=len(before))
        with self._steps.lock:
            in_reach = self._in_reach(step, prompt, self._made_of(before, step.root))
        texts = [Document.of(document).text for document in in_reach]
        indices, earlier = read_by(prompt, texts, answers)
        read = [in_reach[index] for index in indices]
        known = merge_documents([read, *(run.documents for run in earlier)])
        unread = [
            document
            for document in in_reach
            if not any(are_versions(document, other) for other in known)
        ]
        return Reading(read, earlier, merge_documents([known, unread]), len(answers))

    def _documents_for(self, step: Step, prompt: str, shares: bool) -> list[Any]:
        """The documents in reach that may stand in a call's prompt.

        Left out, unless the prompt contains them, are documents that an earlier answer within the
        same root used, and other versions of documents that it contains.
        """
        with self._steps.lock:
            candidates = self._in_reach(step, prompt)
            contained = in_prompt(prompt, candidates)
            if shares and contained:
                return contained
            texts = set(map(by_text, contained))
            used = step.root.used

            def is_replaced(document: Any) -> bool:
                return by_text(document) in used or any(
                    are_versions(document, other) for other in contained
                )

            kept = [
                candidate
                for candidate in candidates
                if by_text(candidate) in texts or not is_replaced(candidate)
            ]
            return kept or candidates

    def ended(self, step: Step) -> None:
        """Note the documents that a step without parent retrieved, itself or within."""
        if self._is_loose(step):
            self.loose_documents.extend(step.retrieved())

    def keep(self, step: Step, answer: AttributedRun) -> None:
        """Note a model's answer in a step, after its end."""
        with self._steps.lock:
            answers = self._loose_answers if self._is_loose(step) else step.root.answers
            answers.append((step.ended or self._steps.tick(), answer))

    def _answers_of(self, step: Step) -> Answers:
        with self._steps.lock:
            return tuple(self._loose_answers if self._is_loose(step) else step.root.answers)

    def _is_loose(self, step: Step) -> bool:
        return self._loose and step.parent is None

    def _in_reach(self, step: Step, prompt: str, made: frozenset[str] = frozenset()) -> list[Any]:
        """The documents of a step's own input and of its nearest ancestor with any.

        And those of ancestors farther away that the prompt contains; none that steps `made` of
        answers. Without any, what was loose.
        """
        reached: list[Sequence[Any]] = [step.given]
        nearest: list[Any] = []
        _, *around = step.around()
        for ancestor in around:
            documents = [part for part in ancestor.documents() if by_text(part) not in made]
            reached.append(in_prompt(prompt, documents) if nearest else documents)
            nearest = nearest or documents
        return merge_documents(reached) or merge_documents(
            [in_prompt(prompt, tuple(self.loose_documents))]
        )

    def _made_of(self, answers: Answers, root: Step) -> frozenset[str]:
        """Documents that steps of the root composed, for the most part, of earlier answers."""
        passed_on = {by_text(document): document for document in root.documents()}
        for document in root.retrieved():
            passed_on.pop(by_text(document), None)
        return frozenset(
            key for key, document in passed_on.items() if _is_made_of(document, answers, root)
        )


def _is_made_of(document: Any, answers: Answers, root: Step) -> bool:
    text, num_characters, first = Document.of(document).text, 0, 0
    for tick, answer in answers:
        answered = answer.text[answer.answer.start :].strip()
        if answered and answered in text:
            num_characters += len(answered)
            first = first or tick
    if num_characters < _MADE_SHARE * len(text) or not first:
        return False
    return by_text(document) not in set(map(by_text, root.documents(before=first)))
