"""A server on this machine that speaks Ollama's protocol, and always says the same."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def ollama_server(answer: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Streams the answer to /api/chat word by word; yields its address, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, **body})
            pieces = [word + " " for word in answer.split(" ")]
            pieces[-1] = pieces[-1].removesuffix(" ")
            self.send_response(200)
            self.send_header("content-type", "application/x-ndjson")
            self.end_headers()
            for piece in (*pieces, ""):
                said = {"message": {"role": "assistant", "content": piece}, "done": not piece}
                line = {"model": body["model"], "created_at": "2026-11-27T10:00:00Z", **said}
                self.wfile.write(json.dumps(line).encode() + b"\n")

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
