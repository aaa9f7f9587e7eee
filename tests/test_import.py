"""What importing the package does not do."""

import subprocess
import sys

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
