"""The service as a process of its own, under load and with clients of every kind."""

import asyncio
import logging
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.model_server import NAME, model_server
from support.patience import scaled
from support.service_process import REQUEST, TOKEN, service

from attribot_rag import LocalModel
from attribot_rag.cli import main

logger = logging.getLogger(__name__)

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = float(os.environ.get("ATTRIBOT_RAG_LOAD_SECONDS", "6"))
CLIENTS = 64


@pytest.fixture(scope="module")
def folder(tiny: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chatty")
    tiny.model.save_pretrained(made)
    tiny.tokenizer.save_pretrained(made)
    return made


async def client_of_every_kind(
    address: str, until: float, counts: Counter[Any], number: int
) -> None:
    """A client that asks again and again, now rightly, now wrongly, and sometimes hangs up."""
    chance = random.Random(number)
    async with httpx.AsyncClient(base_url=address, timeout=scaled(60)) as client:
        while time.monotonic() < until:
            kind = chance.choice(["good", "good", "ask", "token", "large", "bad", "gone", "health"])
            sent: dict[str, Any] = {"json": REQUEST, "headers": ALLOWED}
            path = "/attribute"
            if kind == "ask":
                path, sent["json"] = "/ask", {"question": "How high is it?", "max_new_tokens": 4}
            elif kind == "token":
                sent["headers"] = {"Authorization": "Bearer wrong"}
            elif kind == "large":
                sent["json"] = {**REQUEST, "response": "x" * 30_000}
            elif kind == "bad":
                sent = {"content": b"{" * chance.randrange(99), "headers": ALLOWED}
            try:
                if kind == "health":
                    answer = await client.get("/health")
                elif kind == "gone":
                    answer = await client.post(path, **sent, timeout=chance.random() / 20)
                else:
                    answer = await client.post(path, **sent)
                counts[kind, answer.status_code] += 1
                if answer.status_code == 429:
                    await asyncio.sleep(0.05)
            except httpx.TimeoutException:
                assert kind == "gone"
                counts["hung up"] += 1


async def load(address: str, seconds: float) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    until = time.monotonic() + seconds
    clients = (client_of_every_kind(address, until, counts, number) for number in range(CLIENTS))
    await asyncio.gather(*clients)
    return counts


def get(url: str, **options: Any) -> httpx.Response:
    return httpx.get(url, timeout=scaled(5), **options)


def attributes(address: str) -> bool:
    """Whether the service is well enough to attribute an answer."""
    options: dict[str, Any] = {"json": REQUEST, "headers": ALLOWED, "timeout": scaled(5)}
    return httpx.post(f"{address}/attribute", **options).status_code == 200


@pytest.mark.long
@pytest.mark.slow
def test_many_clients_of_every_kind_at_once(folder: Path) -> None:
    limits = ("--max-bytes", "20000", "--waiting", "8", "--method", "leave_one_out")
    with service(str(folder), *limits) as (address, process):
        asyncio.run(load(address, SECONDS / 3))
        before = process.memory_info().rss
        counts = asyncio.run(load(address, SECONDS))
        after = process.memory_info().rss
        logger.info("%s, memory %.3f times", dict(counts), after / before)
        expected = {
            "good": {200, 429},
            "ask": {200, 429},
            "token": {401},
            "large": {413},
            "bad": {400, 422, 429},
            "health": {200},
            "gone": {200, 429},
        }
        for kind, status in (key for key in counts if key != "hung up"):
            assert status in expected[kind], (kind, status)
        for kind in ("good", "ask"):
            assert counts[kind, 200] > 0
        assert counts["hung up"] > 0
        assert after / before < 1.05
        health = get(f"{address}/health").json()
        for _ in range(100):
            if not health["waiting"]:
                break
            time.sleep(0.1)
            health = get(f"{address}/health").json()
        assert health["waiting"] == 0


@pytest.mark.long
@pytest.mark.slow
def test_the_model_of_a_server_is_served(tiny: LocalModel, folder: Path) -> None:
    with model_server(tiny) as server:
        options = ("--server", server.url, "--tokenizer", str(folder), "--method", "leave_one_out")
        with service(NAME, *options) as (address, _):
            assert get(f"{address}/health").json()["model"] == NAME
            assert attributes(address)
        assert server.num_scored > 0


def test_a_server_needs_its_tokenizer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--server", "http://127.0.0.1:9"]) == 2
    assert "--server needs --tokenizer" in capsys.readouterr().err


@pytest.fixture(scope="module")
def without_token(folder: Path) -> Iterator[str]:
    with service(str(folder), token=None) as (address, _):
        yield address


@pytest.mark.long
@pytest.mark.slow
def test_half_a_request_holds_up_no_other(without_token: str) -> None:
    url = httpx.URL(without_token)
    assert url.port is not None
    with socket.create_connection((url.host, url.port)) as half:
        half.sendall(b"POST /attribute HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{")
        assert get(f"{without_token}/health").status_code == 200
    with socket.create_connection((url.host, url.port)) as nonsense:
        nonsense.sendall(b"\x16\x03\x01 no http at all\r\n\r\n")
        assert b"400" in nonsense.recv(1_000)
    assert attributes(without_token)


@pytest.mark.slow
def test_without_a_token_it_answers_to_the_names_of_this_machine_only(without_token: str) -> None:
    assert get(f"{without_token}/health").status_code == 200
    for path in ("/health", "/"):
        answer = get(f"{without_token}{path}", headers={"Host": "elsewhere.example"})
        assert answer.status_code == 400


def test_an_address_that_cannot_be_had_is_an_error_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for port in (str(listener.getsockname()[1]), "99999"):
            assert main(["serve", "--model", "nowhere/model", "--port", port]) == 2
            error = capsys.readouterr().err
            assert f"cannot listen at 127.0.0.1, port {port}" in error
            assert len(error.splitlines()) == 1


def test_other_machines_need_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ATTRIBOT_RAG_TOKEN", raising=False)
    assert main(["serve", "--host", "0.0.0.0", "--model", "nowhere/model"]) == 2
    assert "ATTRIBOT_RAG_TOKEN" in capsys.readouterr().err


@pytest.mark.slow
def test_a_token_in_a_query_is_not_logged(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with service(str(folder), log=log) as (address, _):
        assert get(f"{address}/health?token={TOKEN}&a=%22").status_code == 200
        assert get(f"{address}/queue?access_token={TOKEN}").status_code == 401
    said = log.read_text("utf-8")
    assert "GET /health " in said and "GET /queue " in said
    assert TOKEN not in said


@pytest.mark.slow
def test_a_prompt_that_is_too_long_is_refused_and_no_path_is_told(folder: Path) -> None:
    with service(str(folder)) as (address, _):
        question = {"question": "How high?", "documents": [f"Tower {n}." for n in range(900)]}
        options: dict[str, Any] = {"headers": ALLOWED, "timeout": scaled(60)}
        for sent in (question, {**question, "stream": True}):
            answer = httpx.post(f"{address}/ask", json=sent, **options)
            assert answer.status_code == 422
            assert f"{folder.name!r} has 2048" in answer.json()["detail"]
            assert str(folder.parent) not in answer.text
