"""The build of PyTorch that `make` installs."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one build")


class Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def installing(tmp_path: Path, *variables: str, driver: bool = False) -> tuple[str, str]:
    """Commands of `make install` and its message, with or without an NVIDIA driver."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh", "uname", "timeout", "id", "sed"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if driver:
        (tools / "nvidia-smi").symlink_to(str(shutil.which("true")))
    ran = subprocess.run(
        ["make", "--dry-run", "install", f"VENV={tmp_path}/venv", "INDEX_SECONDS=60", *variables],
        cwd=ROOT,
        env={"PATH": str(tools), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("driver", "choice", "index_of_build"),
    [
        (False, None, "{index}"),
        (True, None, None),
        (False, "", None),
        (False, "http://chosen.invalid/cu130", "http://chosen.invalid/cu130"),
    ],
    ids=["no driver", "driver", "default chosen", "other chosen"],
)
def test_without_a_driver_the_build_for_cpus_is_taken_and_said(
    tmp_path: Path, index: str, driver: bool, choice: str | None, index_of_build: str | None
) -> None:
    variables = [f"CPU_INDEX={index}"] + [f"TORCH_INDEX={choice}"] * (choice is not None)
    commands, message = installing(tmp_path, *variables, driver=driver)
    expected = index_of_build and index_of_build.format(index=index)
    assert ("--extra-index-url" in commands) == bool(expected)
    assert f"--extra-index-url {expected} torch" in commands or not expected
    assert ("build for CPUs" in message) == (expected == index)
    assert message == "" or expected == index


def test_an_index_that_does_not_answer_is_not_taken(tmp_path: Path) -> None:
    commands, message = installing(tmp_path, "CPU_INDEX=http://127.0.0.1:9")
    assert "--extra-index-url" not in commands
    assert message == ""
