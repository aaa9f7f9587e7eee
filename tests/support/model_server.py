"""A server on this machine that speaks vLLM's or SGLang's protocol around a tiny model."""

import copy
import json
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import torch
from transformers import DynamicCache

from attribot_rag.model.generation import cache_inputs
from attribot_rag.model.local_model import LocalModel

NAME = "tiny"
Kind = Literal["vllm", "sglang", "other"]


class ModelServer(ThreadingHTTPServer):
    """Answers as such a server does; 'other' knows no log-probabilities of a prompt.

    `failures` are (status, headers) of the next answers to what costs a forward pass. While `open`
    is not set, such requests wait. `bodies` and `keys` are what came, in order, `most_at_once` how
    many were under way together, `num_hung_up` those whose client went away, `num_encoded` the
    tokens that went through the model. `jitter` is added once more for each answer.
    """

    daemon_threads = True

    def __init__(self, language_model: LocalModel, kind: Kind, max_length: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.language_model = language_model
        self.kind = kind
        self.max_length = max_length
        self.failures: deque[tuple[int, dict[str, str]]] = deque()
        self.open = threading.Event()
        self.open.set()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.key: str | None = None
        self.gives_token_ids = True
        self.num_encoded = 0
        self.under_way = 0
        self.most_at_once = 0
        self.num_hung_up = 0
        self.jitter = 0.0
        self.num_scored = 0
        self.counting = threading.Lock()
        self.lock = threading.Lock()
        self._radix: list[tuple[list[int], DynamicCache]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has hung up is no error of the server's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def log_probabilities(
        self, ids: list[int], start: int, *, reusable: int = 0
    ) -> tuple[list[float], int, int]:
        """Those of the tokens from `start` + 1 on, how many tokens a prefix cache gave, and the
        likeliest next token.

        Up to `reusable` tokens come from that cache.
        """
        with self.lock, torch.no_grad():
            cache, shared = self._cached(ids, reusable)
            model = self.language_model.model
            new = torch.tensor([ids[shared:]])
            logits = model(input_ids=new, **cache_inputs(model, cache)).logits[0]
            self._radix = [*self._radix[-7:], (ids, cache)]
            self.num_encoded += len(ids) - shared
            self.num_scored += 1
        scores = logits.log_softmax(-1)[start - shared : -1]
        targets = torch.tensor(ids[start + 1 :])
        values = scores.gather(-1, targets[:, None])[:, 0] + self.jitter * self.num_scored
        return values.tolist(), shared, int(logits[-1].argmax())

    def _cached(self, ids: list[int], reusable: int) -> tuple[DynamicCache, int]:
        """The longest of the first `reusable` tokens that an earlier request left behind."""
        best, shared = None, 0
        for earlier, cache in self._radix if reusable else ():
            pairs = zip(earlier, ids[:reusable], strict=False)
            length = next((i for i, (old, new) in enumerate(pairs) if old != new), None)
            length = min(len(earlier), reusable) if length is None else length
            if length > shared:
                best, shared = cache, length
        if best is None:
            return DynamicCache(), 0
        cache = copy.deepcopy(best)
        cache.crop(shared - cache.get_seq_length())
        return cache, shared

    def continued(self, ids: list[int], count: int) -> list[int]:
        """The ids of the model's greedy answer."""
        with self.lock, torch.no_grad():
            model = self.language_model.model
            inputs = torch.tensor([ids])
            output = model.generate(  # type: ignore[operator]
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=count,
                do_sample=False,
            )
        return list(map(int, output[0, len(ids) :]))

    def decode(self, ids: list[int]) -> str:
        return self.language_model.decode(ids, skip_special_tokens=True)


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            owners = {"sglang": "sglang", "other": "llamacpp"}
            owner = owners.get(self.server.kind, "vllm")
            model = {"id": NAME, "owned_by": owner, "max_model_len": self.server.max_length}
            self._send(200, {"object": "list", "data": [model]})
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        paths: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/tokenize": self._tokenized,
            "/v1/chat/completions": self._chatted,
        }
        if server.kind == "sglang":
            paths["/generate"] = self._generated
        else:
            paths["/v1/completions"] = self._completions
        if self.path not in paths:
            self._send(404, {})
            return
        if server.key is not None and self.headers["authorization"] != f"Bearer {server.key}":
            self._send(401, {"error": "Unauthorized"})
            return
        if self.path == "/tokenize":
            self._send(200, self._tokenized(body))
            return
        server.keys.append(self.headers["authorization"])
        server.bodies.append(body)
        if server.failures:
            status, headers = server.failures.popleft()
            self._send(status, {"error": "busy"}, headers)
            return
        with self._counted():
            while not server.open.wait(0.02):
                if self._has_hung_up():
                    server.num_hung_up += 1
                    self.close_connection = True
                    return
            answer = paths[self.path](body)
        self._send(200, answer)

    def _has_hung_up(self) -> bool:
        """Whether the client has closed the connection: then there is an end to read."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        server = self.server
        with server.counting:
            server.under_way += 1
            server.most_at_once = max(server.most_at_once, server.under_way)
        yield
        with server.counting:
            server.under_way -= 1

    def _tokenized(self, body: dict[str, Any]) -> dict[str, Any]:
        tokenizer = self.server.language_model.tokenizer
        if "messages" in body:
            ids = tokenizer.apply_chat_template(
                body["messages"], add_generation_prompt=True, return_dict=False
            )
        else:
            ids = tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])[
                "input_ids"
            ]
        return {"tokens": list(ids), "count": len(ids), "max_model_len": self.server.max_length}

    def _completions(self, body: dict[str, Any]) -> dict[str, Any]:
        server, prompt = self.server, body["prompt"]
        if isinstance(prompt[0], str) and not isinstance(prompt, str):
            (prompt,) = prompt  # clients may send a list of one text
        if isinstance(prompt, str):
            prompt = self._tokenized({"prompt": prompt, "add_special_tokens": True})["tokens"]
        ids, scores = list(map(int, prompt)), None
        if body.get("prompt_logprobs") is not None and server.kind != "other":
            assert body["max_tokens"] == 1
            values, _, following = server.log_probabilities(ids, 0)
            new = [following]
            pairs = zip(ids[1:], values, strict=True)
            scores = [
                None,
                *({str(token): {"logprob": value, "rank": 1}} for token, value in pairs),
            ]
        else:
            new = server.continued(ids, body["max_tokens"])
        choice: dict[str, Any] = {
            "index": 0,
            "text": server.decode(new),
            "finish_reason": "length" if len(new) == body["max_tokens"] else "stop",
            "prompt_logprobs": scores,
        }
        if body.get("return_token_ids") and server.gives_token_ids:
            choice["token_ids"] = new
        return {
            "id": "completion",
            "object": "text_completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
            "usage": {
                "prompt_tokens": len(ids),
                "completion_tokens": len(new),
                "total_tokens": len(ids) + len(new),
            },
        }

    def _chatted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The model's answer; before that, with what was asked, a call of the first tool if any."""
        *_, last = messages = body["messages"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if body.get("tools") and last["role"] == "user":
            arguments = json.dumps({"query": last["content"]})
            function = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
            message["tool_calls"] = [{"id": "call", "type": "function", "function": function}]
        else:
            texts = [{**turn, "content": turn["content"] or ""} for turn in messages]
            count = body.get("max_completion_tokens") or body.get("max_tokens") or 8
            new = self.server.continued(self._tokenized({"messages": texts})["tokens"], count)
            message["content"] = self.server.decode(new)
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {
            "id": "chat",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
        }

    def _generated(self, body: dict[str, Any]) -> dict[str, Any]:
        ids, server = body["input_ids"], self.server
        count = body["sampling_params"]["max_new_tokens"]
        new = server.continued(ids, count) if count else []
        ended = {"type": "length", "length": count} if len(new) == count else {"type": "stop"}
        meta: dict[str, Any] = {"prompt_tokens": len(ids), "finish_reason": ended}
        if body.get("return_logprob"):
            start = body["logprob_start_len"]
            values, meta["cached_tokens"], _ = server.log_probabilities(ids, start, reusable=start)
            pairs = zip([None, *values], ids[start:], strict=True)
            meta["input_token_logprobs"] = [[value, token, None] for value, token in pairs]
        return {"text": server.decode(new), "output_ids": new, "meta_info": meta}

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def model_server(
    language_model: LocalModel, kind: Kind = "vllm", max_length: int = 4096
) -> Iterator[ModelServer]:
    """A server that runs for the block."""
    server = ModelServer(language_model, kind, max_length)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.open.set()
        server.shutdown()
        thread.join()
        server.server_close()
