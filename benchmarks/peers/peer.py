"""The peers: what each needs, the virtual environment of each, and its runner in it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT

RUNNERS = "benchmarks.peers.runners"
PINS = (ROOT / "constraints.txt", Path(__file__).parent / "constraints.txt")


@dataclass(frozen=True)
class Peer:
    """A method of a library, as a row of the table.

    `runner` is the module that runs it, with `arguments`, in an environment with `requirements`;
    this one, if there are none. `scores` names what the row is made of in the runner's results.
    """

    name: str
    runner: str
    requirements: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    scores: str = "scores"

    @property
    def file(self) -> str:
        """The name of what is kept of it: peers that share a run share the file."""
        return "_".join((self.runner, *self.arguments))


LEAVE_ONE_OUT = Peer("attribot-rag, `leave_one_out`", "ours", arguments=("leave_one_out",))
PEERS = (
    Peer("attribot-rag, `auto`, the default", "ours", arguments=("auto",)),
    Peer("attribot-rag, `thorough`", "ours", arguments=("thorough",)),
    Peer("attribot-rag, `masked`", "ours", arguments=("masked",)),
    Peer("AT2, untrained", "at2", ("at2==0.0.1",)),
    Peer("FlashTrace", "flashtrace", ("flashtrace==0.1.1",)),
    Peer("ContextCite", "context_cite", ("context-cite==0.0.4",)),
    Peer("AttriBoT's loop", "loop"),
    Peer("ARC-JSD", "loop", scores="divergences"),
    LEAVE_ONE_OUT,
)


class PeerFailed(Exception):
    """A peer could not be installed, or its runner ended with an error."""


def python_for(peer: Peer, folder: Path, torch_index: str | None) -> Path:
    """The interpreter with the peer's packages, which are installed first if they lack.

    PyTorch comes first and alone, so that nothing else decides on its build. Raises PeerFailed.
    """
    if not peer.requirements:
        return Path(sys.executable)
    environment = folder / "environments" / peer.file
    python = environment / "bin" / "python"
    installed = environment / "installed"
    wanted = "\n".join([*peer.requirements, *(pins.read_text() for pins in PINS)])
    if installed.exists() and installed.read_text() == wanted:
        return python
    print(f"Installing {peer.name} into {environment}", flush=True)
    log = folder / f"{peer.file}_install.log"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pip += [argument for pins in PINS for argument in ("--constraint", str(pins))]
    index = ["--extra-index-url", torch_index] if torch_index else []
    log.unlink(missing_ok=True)
    _run([sys.executable, "-m", "venv", str(environment)], log)
    _run([*pip, *index, "torch"], log)
    _run([*pip, *peer.requirements], log)
    installed.write_text(wanted)
    return python


def attribute(peer: Peer, python: Path, cases: Path, folder: Path, model: Path) -> Path:
    """Let the runner attribute what has no result yet; the file of its results.

    Raises PeerFailed; what was attributed before is kept.
    """
    results = folder / f"{peer.file}.json"
    runner = f"{RUNNERS}.{peer.runner}"
    command = [python, "-W", "ignore", "-m", runner, cases, results, model, *peer.arguments]
    _run(list(map(str, command)), folder / f"{peer.file}.log", stdout=None)
    return results


def _run(command: list[str], log: Path, stdout: int | None = subprocess.DEVNULL) -> None:
    """Run it with what it says on standard error in the log, whose end is the reason of failure."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("a") as errors:
        ended = subprocess.run(command, stdout=stdout, stderr=errors, env=environment)
    if ended.returncode:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = lines[-1] if lines else f"exit status {ended.returncode}"
        raise PeerFailed(f"{last} (exit status {ended.returncode}; {log})")
