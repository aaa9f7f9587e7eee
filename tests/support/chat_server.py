"""A server on this machine that speaks the protocols of hosted models."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
Answers = Callable[[str], str]
"""The answer to a prompt, which is the text of all its messages."""
ToolCall = tuple[str, dict[str, Any]]
"""The name and the arguments of a call of a tool."""
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


@contextmanager
def chat_server(
    answer: str | Answers,
    pause: float = 0.0,
    calls: Callable[[Body], ToolCall | None] | None = None,
) -> Iterator[tuple[str, list[Body]]]:
    """Yields its address, and what it was asked, each with its `path`.

    It has OpenAI's /v1/chat/completions and /v1/completions, Anthropic's /v1/messages and Ollama's
    /api/chat, streamed word by word if that is asked for, with a `pause` of so many seconds before
    each. Of a stream that its reader closed, what was asked `is_closed`. A question that comes with
    tools is answered by a call of the first one, with the question as its `query`, unless `calls`
    tells what is called. Calls are streamed by OpenAI's protocol alone.
    """
    asked: list[Body] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(noted := {"path": self.path, **body})
            tool = (calls or _tool_called)(body)
            text = "" if tool else _says(answer, prompt_of(body))
            protocol = _PROTOCOLS[self.path]
            streams = body.get("stream", self.path == "/api/chat")
            streams = streams and not (tool and self.path != "/v1/chat/completions")
            self.send_response(200)
            self.send_header("content-type", protocol.streams_as if streams else "application/json")
            self.end_headers()
            if not streams:
                self.wfile.write(protocol.whole(body, text, tool).encode())
                return
            try:
                pieces = (
                    protocol.streamed(body, text, tool) if tool else protocol.streamed(body, text)
                )
                for piece in pieces:
                    time.sleep(pause)
                    self.wfile.write(piece.encode())
            except ConnectionError:
                noted["is_closed"] = True

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


def prompt_of(body: Mapping[str, Any]) -> str:
    """The texts of a request, of tools too."""
    return "\n".join(
        filter(None, map(_text, (body.get("system"), body.get("prompt"), body.get("messages"))))
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, Mapping):
        return _text(next(filter(None, map(value.get, ("content", "text", "source", "data"))), ""))
    return value or ""


def _says(answer: str | Answers, prompt: str) -> str:
    return answer if isinstance(answer, str) else answer(prompt)


def _tool_called(body: Body) -> ToolCall | None:
    """The name and the arguments of the tool that a question calls."""
    if not body.get("tools"):
        return None
    last = body["messages"][-1]
    parts = last["content"] if isinstance(last["content"], list) else []
    if last["role"] != "user" or any(part["type"] == "tool_result" for part in parts):
        return None
    tool = body["tools"][0]
    return tool.get("function", tool)["name"], {"query": _text(last)}


def _words(text: str) -> list[str]:
    words = [f"{word} " for word in text.split(" ")]
    return [*words[:-1], words[-1].removesuffix(" ")]


class _OpenAI:
    streams_as = "text/event-stream"
    kind = "chat.completion"

    def choice(self, text: str, tool: Any) -> Body:
        message: Body = {"role": "assistant", "content": text or None}
        if tool:
            function = {"name": tool[0], "arguments": json.dumps(tool[1])}
            message["tool_calls"] = [{"id": "call", "type": "function", "function": function}]
        return {"message": message}

    def delta(self, text: str) -> Body:
        return {"delta": {"role": "assistant", "content": text}}

    def _body(self, body: Body, kind: str, choice: Body, reason: str | None) -> Body:
        choices = [{"index": 0, "finish_reason": reason, **choice}]
        return {"id": "1", "object": kind, "created": 0, "model": body["model"], "choices": choices}

    def whole(self, body: Body, text: str, tool: Any) -> str:
        reason = "tool_calls" if tool else "stop"
        made = self._body(body, self.kind, self.choice(text, tool), reason)
        return json.dumps({**made, "usage": USAGE})

    def streamed(self, body: Body, text: str, tool: ToolCall | None = None) -> Iterator[str]:
        kind = f"{self.kind}.chunk"
        deltas: Iterator[Body] = map(self.delta, _words(text))
        if tool:
            whole = self.choice("", tool)["message"]
            whole["tool_calls"][0]["index"] = 0
            deltas = iter([{"delta": whole}])
        pieces = [self._body(body, kind, delta, None) for delta in deltas]
        pieces.append(self._body(body, kind, self.delta(""), "tool_calls" if tool else "stop"))
        yield from (f"data: {json.dumps(piece)}\n\n" for piece in pieces)
        yield "data: [DONE]\n\n"


class _Completions(_OpenAI):
    kind = "text_completion"

    def choice(self, text: str, tool: Any) -> Body:
        return {"text": text, "logprobs": None}

    def delta(self, text: str) -> Body:
        return {"text": text, "logprobs": None}


class _Anthropic:
    streams_as = "text/event-stream"

    def _message(self, body: Body, content: list[Body], reason: str | None) -> Body:
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "1", "type": "message", "role": "assistant", "model": body["model"]}
        end = {"stop_reason": reason, "stop_sequence": None, "usage": usage}
        return {**head, "content": content, **end}

    def whole(self, body: Body, text: str, tool: Any) -> str:
        content: Body = {"type": "text", "text": text}
        if tool:
            content = {"type": "tool_use", "id": "call", "name": tool[0], "input": tool[1]}
        return json.dumps(self._message(body, [content], "tool_use" if tool else "end_turn"))

    def streamed(self, body: Body, text: str) -> Iterator[str]:
        block = {"type": "text", "text": ""}
        events: list[Body] = [
            {"type": "message_start", "message": self._message(body, [], None)},
            {"type": "content_block_start", "index": 0, "content_block": block},
        ]
        for word in _words(text):
            delta = {"type": "text_delta", "text": word}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        yield from (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)


class _Ollama:
    streams_as = "application/x-ndjson"

    def _line(self, body: Body, message: Body, *, done: bool) -> str:
        message = {"role": "assistant", **message}
        head = {"model": body["model"], "created_at": "2026-11-27T10:00:00Z"}
        return json.dumps({**head, "message": message, "done": done}) + "\n"

    def whole(self, body: Body, text: str, tool: Any) -> str:
        message: Body = {"content": text}
        if tool:
            message["tool_calls"] = [{"function": {"name": tool[0], "arguments": tool[1]}}]
        return self._line(body, message, done=True)

    def streamed(self, body: Body, text: str) -> Iterator[str]:
        for word in _words(text):
            yield self._line(body, {"content": word}, done=False)
        yield self._line(body, {"content": ""}, done=True)


_PROTOCOLS: dict[str, Any] = {
    "/v1/chat/completions": _OpenAI(),
    "/v1/completions": _Completions(),
    "/v1/messages": _Anthropic(),
    "/api/chat": _Ollama(),
}
