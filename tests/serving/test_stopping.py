"""What SIGTERM and Ctrl-C do to a running service."""

import asyncio
import logging
import signal
import time

import httpx
import psutil
import pytest
from support.patience import scaled
from support.service_process import service

logger = logging.getLogger(__name__)

LONG = {"question": "How high is the lighthouse?", "max_new_tokens": 300}


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_what_runs_is_answered_and_what_waits_is_refused(tiny_model: str, sent: int) -> None:
    async def check(address: str, process: psutil.Process) -> None:
        ended: list[tuple[int, float]] = []

        async def ask(client: httpx.AsyncClient) -> str:
            answer = await client.post("/ask", json=LONG)
            ended.append((answer.status_code, time.monotonic()))
            return answer.text

        async with httpx.AsyncClient(base_url=address, timeout=scaled(60)) as client:
            asked = [asyncio.create_task(ask(client)) for _ in range(3)]
            while (await client.get("/health")).json()["waiting"] < 3:
                await asyncio.sleep(0.02)
            process.send_signal(sent)
            texts = await asyncio.gather(*asked)
        await asyncio.to_thread(process.wait, scaled(60))
        logger.info("ended %.2f s after the last answer", time.monotonic() - ended[-1][1])
        assert [status for status, _ in ended] == [503, 503, 200]
        assert sum("the service is stopping" in text for text in texts) == 2
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/health")

    options = ("--seconds", "20", "--method", "leave_one_out")
    with service(tiny_model, *options, token=None) as (address, process):
        asyncio.run(check(address, process))
