"""An import of the package: no network, no logging, no output, and little work."""

import os
import subprocess
import sys

import pytest

QUIET = """
import logging, sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "urllib.Request"}:
        raise AssertionError(f"{event} {arguments}")

sys.addaudithook(refuse)
before = logging.root.level, logging.root.handlers[:]
import attribot_rag
from attribot_rag import Attributor, load_model
assert before == (logging.root.level, logging.root.handlers)
"""


def test_an_import_asks_no_network_sets_up_no_logging_and_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LAZY = """
import sys
import attribot_rag
assert attribot_rag.__version__
assert not {"torch", "transformers"} & set(sys.modules)
assert {*attribot_rag.__all__} <= {*dir(attribot_rag)}
assert all(hasattr(attribot_rag, name) for name in attribot_rag.__all__)
assert attribot_rag.errors.InvalidInput
assert not hasattr(attribot_rag, "no_such_name")
"""


def test_the_package_imports_its_modules_when_they_are_used() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_shows_at_once_that_imports_take_their_time() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "attribot_rag", "ask", "Why?", "no such file"]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE) as process:
        first = os.read(ours, 1000)
        imported = process.poll()
    assert first.startswith(b"Importing PyTorch")
    assert imported is None
    assert process.returncode == 2
