"""SIGTERM and Ctrl-C at a running service."""

import asyncio
import logging
import signal
import time
from pathlib import Path

import httpx
import pytest
from support.patience import scaled, wait_until
from support.service_process import LONG, is_refused, service

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOWERS = [f"Tower {number} is {number + 20} metres high." for number in range(50)]
MANY_SOURCES = {
    "prompt": " ".join(TOWERS),
    "response": " ".join(reversed(TOWERS[:8])),
    "documents": TOWERS,
}
HALF = (
    b"POST /attribute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1000\r\n\r\n{"prompt": "'
)


@pytest.mark.parametrize(
    "sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
async def test_a_running_request_is_answered_and_a_waiting_one_is_refused(
    tiny_model: str, sent: int
) -> None:
    ended: list[tuple[int, float]] = []

    async def ask(client: httpx.AsyncClient) -> str:
        answer = await client.post("/ask", json=LONG)
        ended.append((answer.status_code, time.monotonic()))
        return answer.text

    options = ("--seconds", "20", "--method", "leave_one_out", "--clients", "1")
    with service(tiny_model, *options, token=None) as (address, process):
        async with httpx.AsyncClient(base_url=address, timeout=scaled(60)) as client:
            tasks = [asyncio.create_task(ask(client)) for _ in range(3)]
            while (await client.get("/health")).json()["waiting"] < 3:
                await asyncio.sleep(0.02)
            process.send_signal(sent)
            texts = await asyncio.gather(*tasks)
        await asyncio.to_thread(process.wait, scaled(60))
        logger.info("ended %.2f s after the last answer", time.monotonic() - ended[-1][1])
        assert [status for status, _ in ended] == [503, 503, 200]
        assert sum("the service is stopping" in text for text in texts) == 2
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/health")


@pytest.mark.long
async def test_a_running_attribution_is_answered_though_other_clients_hang_or_hang_up(
    tiny_model: str,
) -> None:
    """One client has sent half a request, and another one has gone."""
    options = ("--seconds", "20", "--method", "leave_one_out", "--read-seconds", "4")
    with service(tiny_model, *options, token=None) as (address, process):
        url = httpx.URL(address)
        half, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(HALF)
        async with httpx.AsyncClient(base_url=address, timeout=scaled(60)) as client:

            async def waiting(number: int) -> None:
                while (await client.get("/health")).json()["waiting"] != number:
                    await asyncio.sleep(0.02)

            gone = asyncio.create_task(client.post("/ask", json=LONG))
            await waiting(1)
            attributed = asyncio.create_task(client.post("/attribute", json=MANY_SOURCES))
            await waiting(2)
            gone.cancel()  # hangs up while its answer is generated
            await waiting(1)
            process.send_signal(signal.SIGTERM)
            answer = await attributed
        assert answer.status_code == 200
        assert len(answer.json()["sources"]) == len(TOWERS)
        refusal = await asyncio.wait_for(half.read(), scaled(60))
        assert refusal.startswith(b"HTTP/1.1 408")
        await asyncio.to_thread(process.wait, scaled(60))
        writer.close()


async def test_a_second_ctrl_c_ends_what_runs(tiny_model: str, tmp_path: Path) -> None:
    options = ("--seconds", "3000", "--method", "leave_one_out")
    log = tmp_path / "log.txt"
    with service(tiny_model, *options, token=None, log=log) as (address, process):
        async with httpx.AsyncClient(base_url=address, timeout=scaled(60)) as client:
            endless = {**LONG, "max_new_tokens": 1_024}
            asked = asyncio.create_task(client.post("/ask", json=endless))
            while (await client.get("/health")).json()["waiting"] < 1:
                await asyncio.sleep(0.02)
            process.send_signal(signal.SIGINT)
            await asyncio.to_thread(wait_until, lambda: is_refused(address))
            assert not asked.done()
            process.send_signal(signal.SIGINT)
            await asyncio.gather(asked, return_exceptions=True)
        assert await asyncio.to_thread(process.wait, scaled(60)) == 0
    assert "does not end" not in log.read_text("utf-8")
