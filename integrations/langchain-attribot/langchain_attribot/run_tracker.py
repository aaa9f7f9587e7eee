"""LangChain's runs as a tree, with the documents of each, as its callbacks tell of them."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from attribot_rag.runtime import AttributedRun, read_by
from langchain_attribot.documents import are_versions, by_text, documents_in, merged
from langchain_attribot.read_texts import ReadTexts, in_prompt, is_made_of
from langchain_attribot.run import Kind, Run, names_of

_MAX_TREES = 1024
_MAX_ANSWERS = 4096  # of one root


class RunTracker(BaseCallbackHandler):
    """Keeps the runs that have not ended, by id; those of a root are forgotten when it ends.

    The runs of a root that never ends are forgotten after a thousand other roots have begun.
    """

    def __init__(self) -> None:
        self._runs: dict[UUID, Run] = {}
        self._trees: dict[UUID, list[UUID]] = {}
        self._used: dict[UUID, set[str]] = {}
        self._answers: dict[UUID, deque[tuple[int, AttributedRun]]] = {}
        self._clock = itertools.count(1)
        self._lock = threading.RLock()

    @property
    def num_open(self) -> int:
        """The number of entries of runs that have not ended."""
        return len(self._runs) + len(self._trees) + len(self._used) + len(self._answers)

    def root_ended(self, root: Run, outputs: Any) -> None:
        """A chain without parent has given its outputs."""

    def root_retrieved(self, root: Run) -> None:
        """A tool or a retriever without parent has given its outputs."""

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        run_type: str | None = None,
        **named: Any,
    ) -> None:
        kind: Kind = "parser" if run_type == "parser" else "chain"
        self._begin(run_id, parent_run_id, kind, tuple(documents_in(inputs)), names_of(named))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any) -> None:
        run = self._runs.get(run_id)
        if run is not None and not run.inputs:  # of a stream, they are known at its end
            run.inputs = tuple(documents_in(inputs))
        run = self._end(run_id, tuple(documents_in(outputs)), outputs)
        if run is not None and run.parent is None:
            self.root_ended(run, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id)

    on_tool_error = on_retriever_error = on_chain_error

    def on_tool_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._begin(run_id, parent_run_id, "tool")

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self._end_retrieval(run_id, tuple(documents_in(output)))

    def on_retriever_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._begin(run_id, parent_run_id, "retriever")

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        self._end_retrieval(run_id, tuple(documents))

    def _end_retrieval(self, run_id: UUID, documents: Sequence[Document]) -> None:
        run = self._end(run_id, documents)
        if run is not None and run.parent is None:
            self.root_retrieved(run)

    def _begin(
        self,
        run_id: UUID,
        parent_id: UUID | None,
        kind: Kind,
        inputs: Sequence[Document] = (),
        names: frozenset[str] = frozenset(),
    ) -> Run:
        with self._lock:
            parent = None if parent_id is None else self._runs.get(parent_id)
            root = run_id if parent is None else parent.root
            orphan = parent is None and parent_id is not None
            tick = next(self._clock)
            run = Run(run_id, root, kind, parent, orphan, names, inputs, begun=tick)
            if parent is not None:
                parent.children.append(run)
            self._runs[run_id] = run
            self._trees.setdefault(root, []).append(run_id)
            if len(self._trees) > _MAX_TREES:
                self._forget(next(iter(self._trees)))
            return run

    def _end(
        self, run_id: UUID, outputs: Sequence[Document] | None = None, output: Any = None
    ) -> Run | None:
        """The run with its output, if it is known; a root is forgotten."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None:
                run.outputs, run.ended = outputs, next(self._clock)
                if run.kind == "parser":
                    self._runs[run.root].parsed = output
                if run.parent is None:
                    self._forget(run_id)
            return run

    def _forget(self, root: UUID) -> None:
        with self._lock:
            for run_id in self._trees.pop(root, ()):
                self._runs.pop(run_id, None)
            self._used.pop(root, None)
            self._answers.pop(root, None)

    def _documents_for(self, run: Run, prompt: str) -> list[Document]:
        """The documents in reach that can stand in a model's prompt.

        Left out, unless the prompt contains them, are documents that an earlier answer within the
        same root used, and other versions of documents that it contains.
        """
        with self._lock:
            candidates = self._in_reach(run, prompt)
            contained = in_prompt(prompt, candidates)
            used = self._used.get(run.root, set())

            def is_replaced(document: Document) -> bool:
                return by_text(document) in used or any(
                    are_versions(document, other) for other in contained
                )

            kept = [
                candidate
                for candidate in candidates
                if candidate in contained or not is_replaced(candidate)
            ]
            return kept or candidates

    def _in_reach(
        self, run: Run, prompt: str, made: frozenset[str] = frozenset()
    ) -> list[Document]:
        """The documents of a run's own input and of its nearest ancestor with any.

        And those of ancestors farther away that the prompt contains; none that steps `made` of
        answers.
        """
        with self._lock:
            reached: list[Sequence[Document]] = [run.inputs]
            nearest: list[Document] = []
            ancestor = run.parent
            while ancestor is not None:
                documents = [part for part in ancestor.documents() if by_text(part) not in made]
                reached.append(in_prompt(prompt, documents) if nearest else documents)
                nearest = nearest or documents
                ancestor = ancestor.parent
            return merged(reached, by_text)

    def _read_by(self, run: Run, prompt: str) -> ReadTexts:
        """What a prompt was made of that holds earlier answers of the same root."""
        with self._lock:
            before = [(tick, answer) for tick, answer in self._answers_of(run) if tick < run.begun]
        answers = [answer for _, answer in before]
        if not answers or not read_by(prompt, (), answers)[1]:
            return ReadTexts(num_before=len(before))
        with self._lock:
            root = run.outermost()
            passed_on = {by_text(document): document for document in root.documents()}
            for document in root.retrieved():
                passed_on.pop(by_text(document), None)
            made = {key for key in passed_on if is_made_of(passed_on[key], before, root)}
            in_reach = self._in_reach(run, prompt, frozenset(made))
        texts = [document.page_content for document in in_reach]
        indices, earlier = read_by(prompt, texts, answers)
        read = [in_reach[index] for index in indices]
        known = merged([read, *(answer.documents for answer in earlier)], by_text)
        unread = [
            document
            for document in in_reach
            if not any(are_versions(document, other) for other in known)
        ]
        return ReadTexts(read, earlier, merged([known, unread], by_text), len(answers))

    def _answers_of(self, run: Run) -> Iterable[tuple[int, AttributedRun]]:
        """The answers of models that a call may be given, with the tick when they came."""
        return self._answers.get(run.root, ())

    def _keep(self, run: Run, answer: AttributedRun) -> None:
        """Remember what a model answered from documents, until its root ends."""
        with self._lock:
            if run.root in self._trees:
                answers = self._answers.setdefault(run.root, deque(maxlen=_MAX_ANSWERS))
                answers.append((next(self._clock), answer))

    def _use(self, run: Run, documents: Sequence[Document]) -> None:
        with self._lock:
            if run.root in self._trees:
                self._used.setdefault(run.root, set()).update(map(by_text, documents))
