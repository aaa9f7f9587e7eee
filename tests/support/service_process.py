"""The service as a process of its own."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

CORPUS = Path(__file__).parents[2] / "examples" / "corpus"
TOKEN = "open-sesame"
FERRY = "The ferry Kittiwake carries up to 84 passengers."
REQUEST = {"prompt": f"{FERRY} How many?", "response": "84.", "documents": [FERRY]}
LONG = {"question": "How high is the lighthouse?", "max_new_tokens": 300}


@contextmanager
def service(
    model: str, *options: str, token: str | None = TOKEN, log: Path | None = None
) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a service that listens, and its process.

    What it logs is among what the test printed, and in the file `log`.
    """
    command = [sys.executable, "-m", "attribot_rag", "serve", str(CORPUS), "--model", model]
    environment = {key: value for key, value in os.environ.items() if key != "ATTRIBOT_RAG_TOKEN"}
    if token is not None:
        environment["ATTRIBOT_RAG_TOKEN"] = token
    with tempfile.TemporaryDirectory() as folder:
        output = log or Path(folder, "said.txt")
        with output.open("w") as stderr:
            process = subprocess.Popen(
                [*command, "--port", "0", *options], stderr=stderr, env=environment
            )
        try:
            while not (match := re.search(r"running on (http://\S+)", output.read_text("utf-8"))):
                assert process.poll() is None, output.read_text("utf-8")
                time.sleep(0.1)
            yield match.group(1), psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()
            sys.stderr.write(output.read_text("utf-8"))


def is_refused(address: str) -> bool:
    """Whether the service takes no connection any more."""
    try:
        httpx.get(f"{address}/health", timeout=60)
    except httpx.ConnectError:
        return True
    except httpx.TransportError:  # it closed a connection that it had taken: asked again
        return False
    return False
