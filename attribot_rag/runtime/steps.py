"""The steps of an application's runs as trees, with the documents of each step."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from attribot_rag.runtime.attributed_run import AttributedRun
from attribot_rag.runtime.document_lists import by_text, merge_documents

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
