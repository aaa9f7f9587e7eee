"""The steps of an application's runs, and what a model's call within them may have read."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from attribot_rag.context import Document
from attribot_rag.runtime.documents import are_versions, by_text, in_prompt, merge_documents
from attribot_rag.runtime.earlier_answers import read_by
from attribot_rag.runtime.runs import AttributedRun

Answers = Iterable[tuple[int, AttributedRun]]
"""Answers of models, each with the tick at which it came."""

_MADE_SHARE = 0.5
_MAX_LOOSE = 1024


@dataclass(frozen=True)
class PromptContents:
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

    def contents(self, step: Step, prompt: str, *, shares: bool = False) -> PromptContents:
        """The documents and answers that stand, or may stand, in a call's prompt.

        Of documents that it `shares` with other calls, only those in the prompt count.
        """
        before = [(tick, run) for tick, run in self._answers_of(step) if tick < step.begun]
        answers = [run for _, run in before]
        if not answers or not read_by(prompt, (), answers)[1]:
            documents = self._documents_for(step, prompt, shares)
            return PromptContents(documents, num_before=len(before))
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
        return PromptContents(read, earlier, merge_documents([known, unread]), len(answers))

    def _documents_for(self, step: Step, prompt: str, shares: bool) -> list[Any]:
        """The documents in reach that may stand in a call's prompt.

        Left out, unless the prompt contains them, are documents that an earlier answer within the
        same root used, and other versions of documents that it contains. Only where there are such
        documents is the prompt searched here: the attribution locates them all.
        """
        with self._steps.lock:
            candidates, used = self._in_reach(step, prompt), step.root.used
            ids = Counter(filter(None, (Document.of(part).id for part in candidates)))
            is_clear = (
                used.isdisjoint(map(by_text, candidates)) and max(ids.values(), default=0) < 2
            )
            if is_clear and not shares:
                return candidates
            contained = in_prompt(prompt, candidates)
            if shares and contained:
                return contained
            texts = set(map(by_text, contained))

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


_log = logging.getLogger(__name__)

_MAX_ROOTS = 1024
_MAX_ANSWERS = 4096  # of one root


def _few_answers() -> deque[tuple[int, AttributedRun]]:
    return deque(maxlen=_MAX_ANSWERS)


@dataclass(eq=False)
class Step:
    """A step of an application, such as a chain, a search or the call of a model.

    `given` are the documents in its input, `made` those in its output, `found` those that it
    retrieved: in place of what steps within it found, if it `replaces` them. Names, tags and the
    like are its `names`. An `is_orphan` has a parent that was not seen. `begun` and `ended` are
    ticks of one clock. What an integration keeps with a step is its `memo`. Of a root, `answers`
    are what models answered within it from documents, each with its tick, and `used` the texts of
    the documents that these were attributed to.
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
    answers: deque[tuple[int, AttributedRun]] = field(default_factory=_few_answers)
    children: list[Step] = field(default_factory=list)

    @property
    def root(self) -> Step:
        """The step without parent around it."""
        return self if self.parent is None else self.parent.root

    @property
    def name(self) -> str:
        """The step's name for a reader."""
        return f"the {self.kind} {min(self.names, default='without a name')!r}"

    def within(self) -> Iterator[Step]:
        """The step and all steps within it."""
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
        """Names of the step and of those around it."""
        return frozenset().union(*(step.names for step in self.around()))

    def shape(self) -> frozenset[tuple[str, frozenset[str]]]:
        """Equal for runs of one application: the kinds and names of the step and those within."""
        return frozenset((step.kind, step.names) for step in self.within())

    def documents(self, before: int | None = None) -> list[Any]:
        """All documents of the step and the steps within it, if so those seen `before` a tick.

        Those that were found, and further ones in inputs and outputs: new documents that a step
        made of those.
        """
        found, passed_on = self._documents(before)
        return merge_documents([merge_documents(found, exact=True), *passed_on])

    def retrieved(self) -> list[Any]:
        """The documents that were found, alone."""
        return merge_documents(self._documents(None)[0])

    def _documents(self, before: int | None) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
        """The lists of documents that were found, and those in other inputs and outputs."""
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
    """The steps of unfinished runs, by id; a root's steps are forgotten when it ends.

    Those of a root that never ends are forgotten after a thousand other roots have begun. Ids are
    any values whose text tells steps apart. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._roots: OrderedDict[str, Step] = OrderedDict()
        self._clock = itertools.count(1)
        self._told_of_twice = False
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._steps)

    def get(self, step_id: object) -> Step | None:
        return self._steps.get(str(step_id))

    def begin(self, step_id: object, parent: object = None, **described: Any) -> Step:
        """A new step, within another one if that is known, by its id or itself.

        `described` are fields of Step. It replaces one of the same id that never ended: its
        documents are those of another run. It is that one if nothing happened in between.
        """
        with self.lock:
            open_step = self.get(step_id)
            is_inner = parent is not None
            parent = parent if isinstance(parent, Step) else self.get(parent)
            if open_step is not None and open_step.ended is None:
                given = list(map(by_text, described.get("given", ())))
                is_told_twice = (
                    open_step.parent is parent
                    and not open_step.children
                    and open_step.kind == described.get("kind", open_step.kind)
                    and list(map(by_text, open_step.given)) == given
                )
                if is_told_twice:
                    self._tell_of_twice(open_step)
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
        """The step with its documents, if it is known; a root is forgotten."""
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

    def _tell_of_twice(self, step: Step) -> None:
        if not self._told_of_twice:
            self._told_of_twice = True
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
