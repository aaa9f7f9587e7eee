"""Data sets from local files in their public formats, prepared as the AttriBoT paper does it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.data_sets.hotpotqa import hotpotqa
from attribot_rag.evaluation.data_sets.hub import from_hub
from attribot_rag.evaluation.data_sets.log import log
from attribot_rag.evaluation.data_sets.qasper import qasper
from attribot_rag.evaluation.data_sets.squad import squad
from attribot_rag.evaluation.data_sets.validation import parse, read_text
from attribot_rag.evaluation.example import Example

HUB_PATH = Path("hub")
FORMATS: dict[str, Callable[[Any, str], list[Example]]] = {
    "hotpotqa": hotpotqa,
    "squad": squad,
    "qasper": qasper,
}

__all__ = ["FORMATS", "Loaded", "hotpotqa", "load", "log", "qasper", "sample", "squad"]


@dataclass(frozen=True)
class Loaded:
    """The examples of a file, and the problem of each line that is no example.

    `ignored` are the fields of a log's lines that are not read.
    """

    examples: tuple[Example, ...]
    problems: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def load(path: Path, data_format: str) -> Loaded:
    """Read a file as 'hotpotqa', 'squad', 'qasper' or 'log' (JSON lines).

    The path 'hub' is the data set of this format on the Hugging Face hub. Raises InvalidInput with
    the file, the line or path, and the field, for a file of another format; bad lines of a log are
    problems of the result, unless no line is good.
    """
    problems: list[str] = []
    ignored: list[str] = []
    if data_format == "log":
        text = read_text(path)
        examples, problems, ignored = log(text, path)
        likely = "" if examples else _likely_format(text, path)
    elif data_format in FORMATS:
        data = from_hub(data_format) if path == HUB_PATH else parse(read_text(path), path)
        try:
            examples, likely = FORMATS[data_format](data, str(path)), ""
        except InvalidInput as error:
            raise InvalidInput(f"{error}{_hint(_format_of(data))}") from error
    else:
        names = ", ".join([*FORMATS, "log"])
        raise InvalidInput(f"unknown format {data_format!r}; choose one of {names}")
    if not examples:
        first = f"; the first of {len(problems)} bad lines: {problems[0]}" if problems else ""
        raise InvalidInput(
            f"{path} holds no example of the format {data_format!r}{first}{_hint(likely)}"
        )
    return Loaded(tuple(examples), tuple(problems), tuple(ignored))


def _likely_format(text: str, path: Path) -> str:
    try:
        return _format_of(parse(text, path))
    except InvalidInput:
        return ""


def _format_of(data: Any) -> str:
    """The format in which the data hold examples, '' if none."""
    for name, read in FORMATS.items():
        try:
            if read(data, ""):
                return name
        except InvalidInput:
            continue
    return ""


def _hint(data_format: str) -> str:
    return f"; it looks like --{data_format}" if data_format else ""


def sample(examples: Sequence[Example], count: int, seed: int = 0) -> list[Example]:
    """A random sample of `count` examples; a larger sample begins with a smaller sample."""
    order = random.Random(seed).sample(range(len(examples)), len(examples))
    return [examples[index] for index in order[:count]]
