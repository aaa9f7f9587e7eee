"""Two clients at once, who share the model by turns: both are answered, again and again."""

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.model_server import NAME, model_server
from support.patience import scaled
from support.service_process import service

from attribot_rag import LocalModel
from attribot_rag.methods.auto import METHODS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PAIRS = int(os.environ.get("ATTRIBOT_RAG_PAIRS", "3"))
CLIENTS = [{"Authorization": f"Bearer {token}"} for token in ("one", "other")]
TOWERS = [f"Tower {number} is {number + 20} metres high." for number in range(20)]


def bodies(documents: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The requests about these documents, by their paths."""
    question = "How high is it?"
    given = {"prompt": f"{' '.join(documents)} {question}", "response": "38 metres. 1 tower."}
    return [
        ("/attribute", {**given, "documents": documents}),
        ("/ask", {"question": question, "documents": documents, "max_new_tokens": 8}),
    ]


async def both_are_answered(address: str) -> None:
    """Each pair of requests with one source and with many, at the same time."""
    sent = [*bodies(TOWERS[:1]), *bodies(TOWERS)]
    async with httpx.AsyncClient(base_url=address, timeout=scaled(240)) as client:
        for number in range(PAIRS):
            for first, second in zip(sent, sent[number % 4 :] + sent[: number % 4], strict=True):
                pair = zip((first, second), CLIENTS, strict=True)
                posts = (client.post(path, json=json, headers=own) for (path, json), own in pair)
                for answer in await asyncio.gather(*posts):
                    assert answer.status_code == 200, answer.text
        health = (await client.get("/health")).json()
    assert health["waiting"] == 0


@pytest.mark.parametrize(
    "method",
    [name if name == "auto" else pytest.param(name, marks=pytest.mark.long) for name in METHODS],
)
async def test_two_clients_are_answered(tiny_model: str, method: str) -> None:
    with service(tiny_model, "--method", method, token="one\nother") as (address, _):
        await both_are_answered(address)


@pytest.mark.long
async def test_two_clients_of_a_served_model_are_answered(tiny: LocalModel, tmp_path: Path) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        options = ("--server", server.url, "--tokenizer", str(tmp_path))
        with service(NAME, *options, token="one\nother") as (address, _):
            await both_are_answered(address)
