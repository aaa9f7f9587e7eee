"""The steps of an application's runs, and what a call of a model in them may have read."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from attribot_rag.context import Document
from attribot_rag.runtime.documents import (
    are_versions,
    document_key,
    documents_in_prompt,
    find_in_prompt,
    merge_documents,
)
from attribot_rag.runtime.runs import AttributedRun

Answers = Iterable[tuple[int, AttributedRun]]
"""Answers of models, each with the tick at which it came."""

_MADE_SHARE = 0.5
_MAX_LOOSE = 1024


@dataclass(frozen=True)
class PromptContents:
    """The `documents` and `earlier` answers in the prompt of one call.

    If there are earlier answers, `retrieved` has all documents that the call may have read.
    `num_before` is the number of answers before this one in the root run.
    """

    documents: Sequence[Any] = ()
    earlier: Sequence[AttributedRun] = ()
    retrieved: Sequence[Any] = ()
    num_before: int = 0


class Reach:
    """Finds the documents and answers in a call's prompt, from the steps around the call.

    With `loose`, all steps without a parent count as one script. A later call without a parent may
    have read what these steps retrieved and answered, if its prompt contains it.
    """

    def __init__(self, steps: Steps, *, loose: bool = False) -> None:
        self._steps = steps
        self._loose = loose
        self.loose_documents: deque[Any] = deque(maxlen=_MAX_LOOSE)
        self._loose_answers: deque[tuple[int, AttributedRun]] = deque(maxlen=_MAX_LOOSE)

    def contents(self, step: Step, prompt: str, *, shares: bool = False) -> PromptContents:
        """The documents and answers that the prompt of a call contains, or may contain.

        With `shares`, other calls have the same documents, so only those in the prompt count.
        """
        before = [(tick, run) for tick, run in self._answers_of(step) if tick < step.begun]
        answers = [run for _, run in before]
        if not answers or not find_in_prompt(prompt, (), answers)[1]:
            documents = self._documents_for(step, prompt, shares)
            return PromptContents(documents, num_before=len(before))
        with self._steps.lock:
            in_reach = self._in_reach(step, prompt, self._documents_of_answers(before, step.root))
        texts = [Document.of(document).text for document in in_reach]
        indices, earlier = find_in_prompt(prompt, texts, answers)
        read = [in_reach[index] for index in indices]
        known = merge_documents([read, *(run.documents for run in earlier)])
        unread = [
            document
            for document in in_reach
            if not any(are_versions(document, other) for other in known)
        ]
        return PromptContents(read, earlier, merge_documents([known, unread]), len(answers))

    def _documents_for(self, step: Step, prompt: str, shares: bool) -> list[Any]:
        """The documents that a call may have read.

        Two kinds are left out unless the prompt contains them: documents that an earlier answer of
        the same root used, and other versions of documents in the prompt. The prompt is searched
        only if there are such documents. The attribution locates all documents later.
        """
        with self._steps.lock:
            candidates, used = self._in_reach(step, prompt), step.root.used
            read = [*map(Document.of, candidates)]
            ids = Counter(document.id for document in read if document.id)
            is_used = bool(used) and not used.isdisjoint(map(document_key, candidates))
            if not (is_used or shares) and max(ids.values(), default=0) < 2:
                return candidates
            contained = documents_in_prompt(prompt, candidates)
            if shares and contained:
                return contained
            texts = set(map(document_key, contained))

            def is_replaced(document: Any) -> bool:
                return document_key(document) in used or any(
                    are_versions(document, other) for other in contained
                )

            kept = [
                candidate
                for candidate in candidates
                if document_key(candidate) in texts or not is_replaced(candidate)
            ]
            return kept or candidates

    def ended(self, step: Step) -> None:
        """Remember the documents of a step without a parent, and of the steps in it."""
        if self._is_loose(step):
            self.loose_documents.extend(step.retrieved())

    def keep(self, step: Step, answer: AttributedRun) -> None:
        """Remember a model's answer in a step, after the step has ended."""
        with self._steps.lock:
            answers = self._loose_answers if self._is_loose(step) else step.root.answers
            answers.append((step.ended or self._steps.tick(), answer))

    def _answers_of(self, step: Step) -> Answers:
        with self._steps.lock:
            return tuple(self._loose_answers if self._is_loose(step) else step.root.answers)

    def _is_loose(self, step: Step) -> bool:
        return self._loose and step.parent is None

    def _in_reach(
        self, step: Step, prompt: str, of_answers: frozenset[str] = frozenset()
    ) -> list[Any]:
        """The documents in a step's own input, and in its nearest ancestor that has any.

        Documents of farther ancestors count if the prompt contains them. Documents that were made
        `of_answers` do not count. If there are none, the loose documents count.
        """
        reached: list[Sequence[Any]] = [step.given]
        nearest: list[Any] = []
        _, *around = step.around()
        for ancestor in around:
            documents = ancestor.documents()
            if of_answers:
                documents = [part for part in documents if document_key(part) not in of_answers]
            reached.append(documents_in_prompt(prompt, documents) if nearest else documents)
            nearest = nearest or documents
        return merge_documents(reached) or merge_documents(
            [documents_in_prompt(prompt, tuple(self.loose_documents))]
        )

    def _documents_of_answers(self, answers: Answers, root: Step) -> frozenset[str]:
        """The documents that steps of the root made mostly of earlier answers."""
        passed_on = {document_key(document): document for document in root.documents()}
        for document in root.retrieved():
            passed_on.pop(document_key(document), None)
        return frozenset(
            key for key, document in passed_on.items() if _repeats_answers(document, answers, root)
        )


def _repeats_answers(document: Any, answers: Answers, root: Step) -> bool:
    text, num_characters, first = Document.of(document).text, 0, 0
    for tick, answer in answers:
        answered = answer.text[answer.answer.start :].strip()
        if answered and answered in text:
            num_characters += len(answered)
            first = first or tick
    if num_characters < _MADE_SHARE * len(text) or not first:
        return False
    return document_key(document) not in set(map(document_key, root.documents(before=first)))


_log = logging.getLogger(__name__)

_MAX_ROOTS = 1024
_MAX_ANSWERS = 4096  # of one root


@dataclass(eq=False)
class Step:
    """A step of an application, such as a chain, a search or the call of a model.

    `given` are the documents in its input, `made` those in its output, and `found` those that it
    retrieved. With `replaces`, `found` replaces the documents that steps in it found. `names` has
    its names and tags. `root` is the step around it that has no parent. `is_orphan` says that its
    parent was not seen. `begun` and `ended` number the events of the application in their order. An
    integration can keep data of its own in `memo`. In a root step, `answers` contains the models'
    answers with the numbers of their events, and `used` the texts of the documents to which they
    were attributed.
    """

    id: str
    kind: str = "step"
    parent: Step | None = None
    names: frozenset[str] = frozenset()
    given: Sequence[Any] = ()
    made: Sequence[Any] = ()
    found: Sequence[Any] | None = None
    replaces: bool = False
    is_orphan: bool = False
    begun: int = 0
    ended: int | None = None
    memo: dict[str, Any] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    answers: deque[tuple[int, AttributedRun]] = field(
        default_factory=partial(deque, maxlen=_MAX_ANSWERS)
    )
    children: list[Step] = field(default_factory=list)

    root: Step = field(init=False)

    def __post_init__(self) -> None:
        self.root = self if self.parent is None else self.parent.root

    @property
    def name(self) -> str:
        """What a message calls the step."""
        return f"the {self.kind} {min(self.names, default='without a name')!r}"

    def within(self) -> Iterator[Step]:
        """The step and all steps in it."""
        yield self
        for child in self.children:
            yield from child.within()

    def around(self) -> Iterator[Step]:
        """The step and its ancestors, the nearest first."""
        step: Step | None = self
        while step is not None:
            yield step
            step = step.parent

    def all_names(self) -> frozenset[str]:
        """The names of the step and of its ancestors."""
        return frozenset().union(*(step.names for step in self.around()))

    def shape(self) -> frozenset[tuple[str, frozenset[str]]]:
        """Equal for runs of one application: the kinds and names of the step and of the steps in
        it.
        """
        return frozenset((step.kind, step.names) for step in self.within())

    def documents(self, before: int | None = None) -> list[Any]:
        """All documents of the step and of the steps in it, or only those seen `before` an event.

        These are the documents that were found, and other documents in inputs and outputs.
        """
        found, passed_on = self._documents(before)
        return merge_documents([merge_documents(found, exact=True), *passed_on])

    def retrieved(self) -> list[Any]:
        """Only the documents that were found."""
        return merge_documents(self._documents(None)[0])

    def _documents(self, before: int | None) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
        """The lists of documents that were found, and the lists in inputs and outputs."""
        if before is not None and self.begun >= before:
            return [], []
        found, passed_on = [], [self.given]
        has_ended = before is None or (self.ended is not None and self.ended < before)
        if has_ended:
            found, passed_on = [self.found or ()], [self.given, self.made]
        if not (has_ended and self.found is not None and self.replaces):
            for child in self.children:
                inner_found, inner_passed_on = child._documents(before)
                found += inner_found
                passed_on += inner_passed_on
        return found, passed_on


class Steps:
    """The steps of unfinished runs, by id. When a root ends, its steps are forgotten.

    A root that never ends is forgotten after a thousand later ones. An id is any value whose text
    is unique. Several threads may use it.
    """

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._roots: OrderedDict[str, Step] = OrderedDict()
        self._clock = itertools.count(1)
        self._has_warned = False
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._steps)

    def get(self, step_id: object) -> Step | None:
        return self._steps.get(str(step_id))

    def begin(self, step_id: object, parent: object = None, **described: Any) -> Step:
        """A new step, within `parent` if that is known. `parent` is a step or its id.

        `described` are fields of Step. If a step of this id never ended, it is replaced, because
        its documents belong to another run. If nothing happened since it began, it is returned.
        """
        with self.lock:
            open_step = self.get(step_id)
            is_inner = parent is not None
            parent = parent if isinstance(parent, Step) else self.get(parent)
            if open_step is not None and open_step.ended is None:
                given = list(map(document_key, described.get("given", ())))
                is_repeated = (
                    open_step.parent is parent
                    and not open_step.children
                    and open_step.kind == described.get("kind", open_step.kind)
                    and list(map(document_key, open_step.given)) == given
                )
                if is_repeated:
                    self._warn_of_repetition(open_step)
                    return open_step
                _log.warning("The step %r began again: what it had found is forgotten.", step_id)
            step = Step(
                str(step_id),
                parent=parent,
                is_orphan=parent is None and is_inner,
                begun=self.tick(),
                **described,
            )
            self._steps[step.id] = step
            if parent is not None:
                parent.children.append(step)
                return step
            self._roots[step.id] = step
            if len(self._roots) > _MAX_ROOTS:
                self._forget(next(iter(self._roots.values())))
            return step

    def end(
        self,
        step_id: object,
        *,
        made: Sequence[Any] | None = None,
        found: Sequence[Any] | None = None,
        replaces: bool = False,
    ) -> Step | None:
        """End a step, and return it with its documents; None if it is unknown.

        A root's steps are forgotten.
        """
        with self.lock:
            step = self.get(step_id)
            if step is not None:
                step.made = step.made if made is None else made
                step.found = step.found if found is None else found
                step.replaces = replaces
                step.ended = self.tick()
                if step.root.id not in self._roots:
                    del self._steps[step.id]
                elif step.parent is None:
                    self._forget(step)
            return step

    def _warn_of_repetition(self, step: Step) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "The same handler is attached twice to %s: it counts once. Pass it in one place.",
                step.root.name,
            )

    def tick(self) -> int:
        return next(self._clock)

    def _forget(self, root: Step) -> None:
        for step in root.within():
            self._steps.pop(step.id, None)
        self._roots.pop(root.id, None)
