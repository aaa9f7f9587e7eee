"""A request whose work stands still, in a service of its own: what tells of it, and its end."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from support.patience import scaled, wait_until
from support.service_process import REQUEST, is_refused, service

pytestmark = pytest.mark.slow

# An answer that cites nothing is given to no annotator: this stands still where it would be asked.
STANDS_STILL = """
import os
import time

from attribot_rag.annotation import Annotation, NumbersInDocuments

asked = Annotation.of


def stands_still(*arguments):
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
    return asked(*arguments)


class StandsStill(NumbersInDocuments):
    def __init__(self):
        Annotation.of = stands_still
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The work stands still until this file is there."""
    (tmp_path / "standing.py").write_text(STANDS_STILL, "utf-8")
    file = tmp_path / "go"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GO", str(file))
    return file


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


@pytest.fixture
def standing(tiny_model: str, go: Path, log: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A service that has answered once, so that it loads nothing any more."""
    options = ("--annotator", "standing:StandsStill", "--stall-seconds", "2")
    with service(tiny_model, *options, token=None, log=log) as running:
        go.touch()
        assert httpx.post(f"{running[0]}/attribute", json=REQUEST, timeout=scaled(120)).is_success
        go.unlink()
        yield running


class Asking(threading.Thread):
    """A client that waits for its answer."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.status: int | None = None
        self.start()

    def run(self) -> None:
        url = f"{self._address}/attribute"
        self.status = httpx.post(url, json=REQUEST, timeout=scaled(120)).status_code


def test_health_and_the_log_tell_of_it_until_it_goes_on(
    standing: tuple[str, psutil.Process], go: Path, log: Path
) -> None:
    address, _ = standing

    def health() -> httpx.Response:
        return httpx.get(f"{address}/health", timeout=scaled(20))

    assert (health().status_code, health().json()["status"]) == (200, "ok")
    asking = Asking(address)
    wait_until(lambda: health().json()["waiting"] == 1, 60)
    wait_until(lambda: "in stands_still" in log.read_text("utf-8"), 120)  # the stack
    assert "a request of '127.0.0.1' has made no progress for" in log.read_text("utf-8")
    stalled = health()
    assert (stalled.status_code, stalled.json()["stalled"]) == (503, 1)
    assert stalled.json()["status"] == "stalled"
    go.touch()
    asking.join(scaled(120))
    assert asking.status == 200
    assert (health().status_code, health().json()["stalled"]) == (200, 0)


@pytest.mark.long
def test_a_second_ctrl_c_ends_the_process_all_the_same(
    standing: tuple[str, psutil.Process],
) -> None:
    address, process = standing
    Asking(address)
    wait_until(lambda: httpx.get(f"{address}/health").json()["stalled"] == 1, 120)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: is_refused(address), 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(scaled(60)) == 1
