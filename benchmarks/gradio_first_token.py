"""When the first token of an answer is shown: in the Gradio chat over its bare chain.

    make .venv-gradio/installed
    .venv-gradio/bin/python -m benchmarks.gradio_first_token

Both retrieve and generate the same, one after the other. The chat is a process of its own, asked
over HTTP as its page asks it, every time in a new conversation; its citations are awaited before
the next question.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from langchain_chroma import Chroma

from attribot_rag.evaluation.setting import hardware
from examples import gradio_chat

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTIONS = (
    "How high is the lighthouse?",
    "Who designed the lighthouse?",
    "How many passengers does the ferry carry?",
    "When does the festival begin?",
)


@contextmanager
def running(port: int) -> Iterator[str]:
    """The address of the chat, as `make chat` starts it, with a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / "gradio_chat.py"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "GRADIO_SERVER_PORT": str(port),
                "CHAT_FOLDER": str(EXAMPLES / "corpus"),
                "CHAT_STORE": folder,
            },
        )
        address = f"http://127.0.0.1:{port}"
        try:
            while not _answers(address):
                assert process.poll() is None, f"the chat could not be started at {address}"
                time.sleep(1)
            yield address
        finally:
            process.kill()
            process.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address).is_success
    except httpx.HTTPError:
        return False


def bare(question: str) -> float:
    """Seconds until the chain has its first token, without handler and page."""
    started = time.perf_counter()
    found = gradio_chat.store.similarity_search(question, k=3)
    given = {
        "history": [],
        "context": "\n\n".join(one.page_content for one in found),
        "question": question,
    }
    pieces = (gradio_chat.prompt | gradio_chat.chat).stream(given)
    while not next(pieces).content:
        pass
    first = time.perf_counter() - started
    for _ in pieces:
        pass
    return first


def in_chat(question: str, page: httpx.Client) -> tuple[float, float]:
    """Seconds until the chat shows the first token, and from the answer's end to its citations."""
    session = uuid4().hex
    started = time.perf_counter()
    first = None
    for _, conversation, *_ in outputs(page, "ask", session, question, None):
        if first is None and len(conversation or ()) == 2:
            first = time.perf_counter() - started
    ended = time.perf_counter()
    assert first is not None
    (conversation, *_), *_ = outputs(page, "cite", session, None)
    assert "<attribot-answer" in json.dumps(conversation), conversation
    return first, time.perf_counter() - ended


def outputs(page: httpx.Client, event: str, session: str, *given: object) -> Iterator[list[Any]]:
    """What an event of the page brings, as it comes."""
    asked = page.post(event, json={"data": given, "session_hash": session}).raise_for_status()
    with page.stream("GET", f"{event}/{asked.json()['event_id']}") as events:
        for line in events.iter_lines():
            if line.startswith("data: ["):
                yield json.loads(line.removeprefix("data: "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=32)
    parser.add_argument("--port", type=int, default=7960)
    options = parser.parse_args()
    gradio_chat.handler.close()  # nothing records what the chain says here
    gradio_chat.store = Chroma("chat", gradio_chat.embeddings)
    for path in sorted((EXAMPLES / "corpus").iterdir()):
        gradio_chat.add(path)
    measured = []
    with (
        running(options.port) as address,
        httpx.Client(base_url=f"{address}/gradio_api/call/", timeout=None) as page,
    ):
        for number in range(options.rounds + 1):  # the first round only warms up
            question = QUESTIONS[number % len(QUESTIONS)]
            if number % 2:  # neither always follows the other
                measured.append((bare(question), *in_chat(question, page)))
            else:
                shown, cited = in_chat(question, page)
                measured.append((bare(question), shown, cited))
    ratios = [shown / alone for alone, shown, _ in measured[1:]]
    alone, shown, cited = (statistics.median(column) for column in zip(*measured[1:], strict=True))
    print(f"{hardware()}, {options.rounds} rounds, medians")
    print(f"first token, chain     {alone:.3f} s")
    print(f"first token, chat      {shown:.3f} s")
    low, ratio, high = statistics.quantiles(ratios)
    print(f"ratio                  {ratio:.3f}, quartiles {low:.3f} and {high:.3f}")
    print(f"then until citations   {cited:.3f} s")


if __name__ == "__main__":
    main()
