"""Counters of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attribot_rag import Attribution

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_REASONS = {
    400: "bad request",
    401: "no token",
    404: "unknown path",
    405: "unknown method",
    408: "slow body",
    413: "large body",
    422: "invalid",
    429: "queue full",
    500: "failure",
    502: "model's server",
    503: "no memory",
}


class Metrics:
    """The metrics of one service. A `route` is a path of the service, or "other"."""

    def __init__(self, num_waiting: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "attribot_rag_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._refusals = Counter(
            "attribot_rag_refusals", "Requests refused.", ["reason"], registry=registry
        )
        self._seconds = Histogram(
            "attribot_rag_attribution_seconds",
            "Seconds that a request runs: its attribution, and the answer to a question.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "attribot_rag_scored_tokens",
            "Tokens that went through the model for attributions, prefills included.",
            registry=registry,
        )
        queue_length = Gauge(
            "attribot_rag_queue_length", "Requests that wait or run.", registry=registry
        )
        queue_length.set_function(num_waiting)

    def measured(self, route: str, task: Callable[[], Attribution]) -> Attribution:
        """The task's attribution. Its seconds and tokens are counted."""
        with self._seconds.labels(route).time():
            attribution = task()
        provenance = attribution.provenance
        self._tokens.inc(provenance.prefilled_tokens + provenance.scored_tokens)
        return attribution

    def observe_response(self, route: str, status: int, reason: str | None) -> None:
        """Count a response. A refusal has a `reason`; None takes it from the status."""
        self._requests.labels(route, status).inc()
        if status >= 400:
            self._refusals.labels(reason or _REASONS.get(status, "other")).inc()

    async def show(self) -> Response:
        """The metrics in Prometheus' text format."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


@dataclass(eq=False)
class CountResponses:
    """Counts every response. `scope["state"]["refusal"]` may say why a request was refused."""

    app: ASGIApp
    metrics: Metrics
    routes: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        route = scope["path"] if scope["path"] in self.routes else "other"

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.observe_response(route, message["status"], state.get("refusal"))
            await send(message)

        await self.app(scope, receive, counting)
