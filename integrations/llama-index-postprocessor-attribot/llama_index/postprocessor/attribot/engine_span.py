"""An engine that is answering, with what was retrieved and answered within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.answer_callback import listen
from llama_index.postprocessor.attribot.tracked_query import QueryObserver, TrackedQuery, text_of

from attribot_rag.runtime import Step


@dataclass(eq=False)
class EngineSpan:
    """A query of an engine, within that of the engine that asked it, if any.

    `nodes` are those that were retrieved for it in steps of its own. `answered` are the queries
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

    def own_query(self, observer: QueryObserver | None) -> TrackedQuery | None:
        """The query for which it calls a model itself, with nodes or answers of others to hand."""
        if self.answered:
            observer = observer or self.answered[-1].observer
        if observer is None or not (self.nodes or self.answered):
            return None
        if self.own is None:
            self.own = TrackedQuery(self.step, observer, self.text, (), self.asynchronous)
            callbacks = getattr(self.instance, "callback_manager", None)
            self.own.when_closed.append(listen(callbacks, self.step.id, self._told))
        self.own.nodes, self.own.earlier = self.nodes, tuple(self.answered)
        return self.own

    def finish(self, response: Any) -> None:
        """Attach what is known to what the engine answers, and tell the engine that asked."""
        query = self.query_of(response)
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

    def _told(self, response: Any) -> None:
        """A response that is on its way out, before the span ends."""
        if self.own is not None and self.query_of(response) is self.own:
            self.own.finish(response)

    def drop(self) -> None:
        """Forget what was recorded for it."""
        if self.own is not None:
            self.own.done()

    def query_of(self, response: Any) -> TrackedQuery | None:
        """The query whose answer a response is: its synthesizer's, another engine's, or its own."""
        if self.synthesized is not None:
            return self.synthesized
        latest = reversed(self.answered)
        passed_on = next((inner for inner in latest if inner.carries(response)), None)
        if passed_on is not None:
            return passed_on
        text = text_of(response)
        if self.own is not None and (self.own.answered or self.own.has_said(text)):
            return self.own
        same = (inner for inner in reversed(self.answered) if text and inner.answer.strip() == text)
        return next(same, self.own)
