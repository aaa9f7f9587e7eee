"""Bodies that are too large, too slow or never sent to their end, on real connections."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import psutil
import pytest
from support.patience import scaled
from support.service_process import TOKEN, service

logger = logging.getLogger(__name__)
pytestmark = pytest.mark.slow

ALLOWED = f"Authorization: Bearer {TOKEN}\r\n"
READ_SECONDS = 2
MEGABYTE = 1_000_000
MAX_GROWTH = 40 * MEGABYTE
PATHS = ["/", "/attribute", "/nowhere"]


class Client:
    """A connection, and the requests that are sent on it."""

    def __init__(self, url: httpx.URL) -> None:
        assert url.port is not None
        self.socket = socket.create_connection((url.host, url.port), timeout=scaled(60))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Whether the service still took it."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def send_slowly(self, data: bytes) -> int:
        """The number of times that the service took it, of 999."""
        for num_sent in range(999):
            if not self.send(data):
                return num_sent
            time.sleep(0.1)
        return 999

    def post(self, path: str, headers: str = "", body: bytes = b"") -> None:
        """A request whose body may be left unfinished."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        self.send(head.encode() + body)

    def read(self) -> str:
        """All that is answered until the service closes the connection."""
        answer = b""
        with suppress(ConnectionResetError):  # closed with a body on the way
            while part := self.socket.recv(65_536):
                answer += part
        return answer.decode()


@pytest.fixture(scope="module")
def running(tiny_model: str) -> Iterator[tuple[httpx.URL, psutil.Process]]:
    with service(tiny_model, "--read-seconds", str(READ_SECONDS)) as (address, process):
        yield httpx.URL(address), process


@pytest.fixture
def client(running: tuple[httpx.URL, psutil.Process]) -> Iterator[Client]:
    with Client(running[0]) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_a_large_body_is_refused_by_its_announcement(client: Client, path: str) -> None:
    client.post(path, f"{ALLOWED}Content-Length: 1000001\r\n")
    assert " 413 " in client.read()


def test_a_large_body_is_refused_when_it_has_come(client: Client) -> None:
    client.post("/attribute", f"{ALLOWED}Transfer-Encoding: chunked\r\n")
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    sent = 0
    while sent < 50 * MEGABYTE and client.send(chunk):
        sent += 0x8000
    assert sent < 50 * MEGABYTE
    assert " 413 " in client.read()


@pytest.mark.parametrize("path", PATHS)
def test_no_body_is_read_where_none_is_needed(client: Client, path: str) -> None:
    """An answer comes before the body, and ends the connection."""
    client.post(path, "Content-Length: 1000\r\n", b"{")
    answer = client.read().lower()
    assert (" 401 " if path != "/" else " 405 ") in answer
    assert "connection: close" in answer


def test_a_body_without_end_is_given_up(client: Client) -> None:
    client.post("/attribute", f"{ALLOWED}Content-Length: 1000\r\n", b"{")
    answer = client.read()
    assert " 408 " in answer
    assert f"within {READ_SECONDS} seconds" in answer


def test_a_slow_body_is_given_up(client: Client) -> None:
    client.post("/attribute", f"{ALLOWED}Content-Length: 1000\r\n", b"{")
    assert client.send_slowly(b" ") < 999
    assert " 408 " in client.read()


@pytest.mark.parametrize("begin", [b"", b"POST /attribute HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_without_end_is_given_up(client: Client, begin: bytes) -> None:
    client.send(begin)
    assert client.read() == ""


def test_a_slow_head_is_given_up_on_a_used_connection_too(client: Client) -> None:
    client.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b" 200 " in client.socket.recv(65_536)
    client.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
    assert client.send_slowly(b"x") < 999


def test_a_head_has_a_size(client: Client) -> None:
    client.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
    client.send(b"x" * MEGABYTE)
    assert " 400 " in client.read()


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/attribute", ""), ("/attribute", ALLOWED)],
    ids=["no token", "token"],
)
def test_400_half_sent_bodies_hold_no_memory(
    running: tuple[httpx.URL, psutil.Process], path: str, headers: str
) -> None:
    url, process = running
    assert httpx.get(url.join("/health"), timeout=scaled(60)).status_code == 200
    before = most = process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(400):
            half = stack.enter_context(Client(url))
            half.post(path, f"{headers}Content-Length: {MEGABYTE}\r\n", b"x" * (MEGABYTE - 1))
            most = max(most, process.memory_info().rss)
        health = httpx.get(url.join("/health"), timeout=scaled(60))
        assert health.status_code == 200
        after = process.memory_info().rss
    logger.info("%s: %.1f MB, %.1f at most", path, (after - before) / 1e6, (most - before) / 1e6)
    assert most - before < MAX_GROWTH
