"""Data sets from local files in their public formats, prepared as the AttriBoT paper does it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attribot_rag.corpus import read_text
from attribot_rag.errors import InvalidInput
from benchmarks.experiment.data_sets.formats import hotpotqa, qasper, squad
from benchmarks.experiment.data_sets.hub import from_hub
from benchmarks.experiment.data_sets.log import log
from benchmarks.experiment.data_sets.validation import parse
from benchmarks.experiment.example import Example, Loaded

HUB_PATH = Path("hub")
FORMATS: dict[str, Callable[[Any, str], list[Example]]] = {
    "hotpotqa": hotpotqa,
    "squad": squad,
    "qasper": qasper,
}

__all__ = ["FORMATS", "Loaded", "hotpotqa", "load", "log", "qasper", "sample", "squad"]


def load(path: Path, data_format: str) -> Loaded:
    """Read a file as 'hotpotqa', 'squad', 'qasper' or 'log' (JSON lines).

    The path 'hub' is the data set of this format on the Hugging Face hub. Raises InvalidInput with
    the file, the line or path, and the field, for a file of another format; bad lines of a log are
    problems of the result, unless no line is good.
    """
    likely = ""
    if data_format == "log":
        text = read_text(path)
        loaded = log(text, path)
        with suppress(InvalidInput):
            likely = "" if loaded.examples else _format_of(parse(text, path))
    elif data_format in FORMATS:
        data = from_hub(data_format) if path == HUB_PATH else parse(read_text(path), path)
        try:
            loaded = Loaded(tuple(FORMATS[data_format](data, str(path))))
        except InvalidInput as error:
            raise InvalidInput(f"{error}{_hint(_format_of(data))}") from error
    else:
        names = ", ".join([*FORMATS, "log"])
        raise InvalidInput(f"unknown format {data_format!r}; choose one of {names}")
    if not loaded.examples:
        bad = loaded.problems
        first = f"; the first of {len(bad)} bad lines: {bad[0]}" if bad else ""
        raise InvalidInput(
            f"{path} holds no example of the format {data_format!r}{first}{_hint(likely)}"
        )
    return loaded


def _format_of(data: Any) -> str:
    """The format in which the data hold examples, '' if none."""
    for name, read in FORMATS.items():
        with suppress(InvalidInput):
            if read(data, ""):
                return name
    return ""


def _hint(data_format: str) -> str:
    return f"; it looks like --{data_format}" if data_format else ""


def sample(examples: Sequence[Example], count: int, seed: int = 0) -> list[Example]:
    """A random sample of `count` examples; a larger sample begins with a smaller sample."""
    order = random.Random(seed).sample(range(len(examples)), len(examples))
    return [examples[index] for index in order[:count]]
