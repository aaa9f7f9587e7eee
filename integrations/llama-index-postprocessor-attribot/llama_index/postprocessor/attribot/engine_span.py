"""Engines that answer from other engines' answers, or call a model themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Workflow
from llama_index.postprocessor.attribot.query import QueryObserver, TrackedQuery, text_of

from attribot_rag.runtime import Step


class ObservedEngine:
    """An engine that has its own queries observed, with everything within them."""

    postprocessor: QueryObserver


@dataclass(eq=False)
class EngineSpan:
    """A query of an engine or a run of a workflow, within that of the one that asked it, if any.

    `nodes` are those that were retrieved for it in steps of its own, after the `num_before` that
    earlier runs of a workflow found, of which an agent remembers some. `answered` are the queries
    that other engines answered for it, in order; `synthesized` is the one that its synthesizer
    answered, and `own` the one for which it called a model without a synthesizer.
    """

    step: Step
    instance: Any
    outer: EngineSpan | None
    text: str
    asynchronous: bool
    observer: QueryObserver | None = None
    nodes: Sequence[NodeWithScore] = ()
    answered: list[TrackedQuery] = field(default_factory=list)
    synthesized: TrackedQuery | None = None
    own: TrackedQuery | None = None
    num_before: int = 0

    @property
    def gathers(self) -> bool:
        """Whether it is a workflow, whose steps and tools may search several times."""
        return isinstance(self.instance, Workflow)

    def own_query(self, observer: QueryObserver | None) -> TrackedQuery | None:
        """The query for which it calls a model itself, with nodes or answers of others to hand."""
        if self.answered:
            observer = observer or self.answered[-1].observer
        if observer is None or not (self.nodes or self.answered):
            return None
        if self.own is None:
            self.own = TrackedQuery(self.step, observer, self.text, (), self.asynchronous)
        self.own.nodes, self.own.earlier = self.nodes, tuple(self.answered)
        self.own.gathers, self.own.num_before = self.gathers, self.num_before
        return self.own

    def responds(self, response: Any) -> None:
        """A response is on its way out, before the span ends."""
        if self.own is not None and self._query_of(response) is self.own:
            self.own.finish(response)

    def finish(self, response: Any) -> None:
        """Attach what is known to what the engine answers, and tell the engine that asked."""
        for call in self.own.calls[-1:] if self.own is not None and self.gathers else ():
            call.answer = text_of(response) if call.answer is None else call.answer
        query = self._query_of(response)
        if query is not None:
            query.finish(response)
            query.add(response)
        elif self.observer is not None and self.nodes and text_of(response):
            query = TrackedQuery(self.step, self.observer, self.text, self.nodes, self.asynchronous)
            self.observer.unseen(query, response)
        if query is not self.own:
            self.drop()
        if self.outer is not None:
            self.outer.answered += self.answered if query is None else [query]

    def drop(self) -> None:
        """Forget what was recorded for it."""
        if self.own is not None:
            self.own.done()

    def _query_of(self, response: Any) -> TrackedQuery | None:
        """The query whose answer a response is: its synthesizer's, another engine's, or its own."""
        if self.synthesized is not None:
            return self.synthesized
        # a chat engine's response tells of an engine's among its sources
        sources = getattr(response, "sources", None) or ()
        outputs = [response, *(getattr(source, "raw_output", None) for source in sources)]
        text, latest = text_of(response), self.answered[::-1]
        for query in latest:
            if any(output is own for output in outputs for own in query.responses):
                return query
        said = [] if self.own is None else [(call.answer or "").strip() for call in self.own.calls]
        if self.own is not None and (self.own.answered or any(s.endswith(text) for s in said)):
            return self.own
        same = (query for query in latest if text and query.answer.strip() == text)
        return next(same, self.own)
