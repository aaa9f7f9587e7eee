"""An import of the package: no network, no logging, no output, and little work."""

import subprocess
import sys

IMPORTED = """
import importlib, logging, sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "urllib.Request"}:
        raise AssertionError(f"{event} {arguments}")

sys.addaudithook(refuse)
before = logging.root.level, logging.root.handlers[:]
import attribot_rag
assert attribot_rag.__version__
assert not {"torch", "transformers"} & set(sys.modules)
assert {*attribot_rag.__all__} <= {*dir(attribot_rag)}
assert attribot_rag.errors.InvalidInput
assert not hasattr(attribot_rag, "no_such_name")
import attribot_rag.runtime
for module in ("annotation", "attribution", "context", "recording.transcript", "runtime"):
    importlib.import_module("attribot_rag." + module)
attribot_rag.runtime.RunOptions(budget=attribot_rag.Budget(seconds=1))
assert not {"torch", "transformers", "scipy"} & set(sys.modules)
assert before == (logging.root.level, logging.root.handlers)
assert all(hasattr(attribot_rag, name) for name in attribot_rag.__all__)
"""


def test_modules_are_imported_when_used_without_network_logging_or_output() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
