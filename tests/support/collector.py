"""A server on this machine that keeps what clients of trackers send to it."""

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A request, with its body as it was before it was compressed."""

    method: str
    path: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Collector(ThreadingHTTPServer):
    """Answers each request with the JSON that `answers` has for the beginning of its path.

    Where there is none, with an empty object. `received` are the requests, in their order.
    """

    daemon_threads = True

    def __init__(self, answers: Mapping[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def sent_to(self, path: str) -> list[Received]:
        """The requests that were posted to this path, whatever its query."""
        return [
            request
            for request in self.received
            if request.method == "POST" and request.path.partition("?")[0] == path
        ]

    def answer_to(self, path: str) -> Any:
        return next((body for start, body in self.answers.items() if path.startswith(start)), {})


class _Handler(BaseHTTPRequestHandler):
    server: Collector
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.append(Received(str(self.command), self.path, body))
        data = json.dumps(self.server.answer_to(self.path)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing to the terminal."""


@contextmanager
def collecting(answers: Mapping[str, Any]) -> Iterator[Collector]:
    with Collector(answers) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            collector.shutdown()
