"""Attributors that other processes make for themselves: of a tiny model, here or on a server."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from attribot_rag import Attributor, ServerOptions
from support.tiny_models import byte_level

OPTIONS: dict[str, Any] = {"method": "leave_one_out", "verdicts": None, "progress": False}


def local() -> Attributor:
    return Attributor(byte_level(), **OPTIONS)


def served(url: str) -> Attributor:
    server = ServerOptions(concurrency=4, attempts=1)
    return Attributor.for_server(url, tokenizer=byte_level().tokenizer, server=server, **OPTIONS)


def killed_once(folder: Path) -> Attributor:
    """Each process leaves its id in the folder; the first to begin a sixth answer is killed."""
    (folder / str(os.getpid())).touch()
    return _KilledOnce(byte_level(), **OPTIONS, mark=folder / "killed")


def holding() -> Attributor:
    """It never ends with an answer that waits; the file `holder` has the id of its process."""
    return _Holding(byte_level(), **OPTIONS)


class _Holding(Attributor):
    def attribute(self, prompt: Any, response: Any, *more: Any, **options: Any) -> Any:
        if "waits" in response:
            Path("holder").write_text(str(os.getpid()))
        while "waits" in response:
            time.sleep(0.05)
        return super().attribute(prompt, response, *more, **options)


class _KilledOnce(Attributor):
    def __init__(self, *positional: Any, mark: Path, **options: Any) -> None:
        super().__init__(*positional, **options)
        self._mark = mark
        self._attributed = 0

    def attribute(self, *positional: Any, **options: Any) -> Any:
        self._attributed += 1
        if self._attributed == 6 and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().attribute(*positional, **options)
