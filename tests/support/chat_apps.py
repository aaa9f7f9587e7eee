"""The chats of the examples, each as a process of its own."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from support.patience import scaled

ROOT = Path(__file__).parents[2]
PATIENCE = scaled(120_000)  # milliseconds


@contextmanager
def gradio_chat(folder: Path, temporary: Path, **variables: str) -> Iterator[str]:
    """The address of the Gradio chat about a folder; its store is kept in the other."""
    port = _free_port()
    command = [sys.executable, ROOT / "examples" / "gradio_chat.py"]
    variables |= {"GRADIO_SERVER_PORT": str(port), "CHAT_FOLDER": str(folder)}
    with _running(command, port, temporary, **variables):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def chainlit_chat(folder: Path, temporary: Path, **variables: str) -> Iterator[str]:
    """The address of the Chainlit chat about a folder; its store is kept in the other."""
    port = _free_port()
    example = ROOT / "examples" / "chainlit_chat.py"
    chainlit = Path(sys.executable).with_name("chainlit")
    command = [chainlit, "run", example, "--headless", "--port", port]
    variables |= {"CHAINLIT_APP_ROOT": str(temporary), "CHAT_FOLDER": str(folder)}
    with _running(command, port, temporary, **variables):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def streamlit_application(python: Path, file: Path) -> Iterator[str]:
    """The address of a Streamlit application, run by the Python that has Streamlit."""
    port = _free_port()
    options = [f"--server.port={port}", "--server.headless=true", "--server.address=127.0.0.1"]
    private = "--browser.gatherUsageStats=false"
    command = [python, "-m", "streamlit", "run", file, *options, private]
    with _running(command, port, file.parent, PYTHONPATH=""):
        yield f"http://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _running(
    command: Sequence[object], port: int, temporary: Path, **variables: str
) -> Iterator[None]:
    """A process that listens, and is killed at the end."""
    output = temporary / "said.txt"
    with output.open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "CHAT_STORE": str(temporary / "store"),
                **variables,
            },
        )
    try:
        while not _listens(port):
            assert process.poll() is None, output.read_text("utf-8")
            time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5).close()
    except (URLError, ConnectionError, TimeoutError):
        return False
    return True
