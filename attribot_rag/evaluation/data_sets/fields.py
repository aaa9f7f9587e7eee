"""Values of a data file that know where they stand, so that errors can say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribot_rag.errors import InvalidInput

_NAMES = {str: "a text", list: "a list", dict: "an object", int: "a whole number", bool: "a bool"}


@dataclass(frozen=True)
class Field:
    """A value of parsed JSON; `place` is the file with the line or the path to the value."""

    value: Any
    place: str

    def __getitem__(self, name: str) -> Field:
        """A field of an object; raises InvalidInput if it is missing."""
        found = self.get(name)
        if found is None and name in self.value:
            raise InvalidInput(f"{self.place}.{name}: it is null")
        if found is None:
            known = ", ".join(map(repr, self.of(dict))) or "none"
            raise InvalidInput(f"{self.place}: the field {name!r} is missing; there are {known}")
        return found

    def get(self, name: str) -> Field | None:
        """A field of an object, or None if it is missing or null."""
        value = self.of(dict).get(name)
        return None if value is None else Field(value, f"{self.place}.{name}")

    def __iter__(self) -> Iterator[Field]:
        """The elements of a list."""
        for index, value in enumerate(self.of(list)):
            yield Field(value, f"{self.place}[{index}]")

    @property
    def text(self) -> str:
        return str(self.of(str))

    @property
    def name(self) -> str:
        """A text, or a number that names something."""
        return str(self.value) if type(self.value) is int else self.text

    @property
    def number(self) -> int:
        return int(self.of(int))

    def of(self, kind: type) -> Any:
        """The value, which has to be of this kind; raises InvalidInput if it is not."""
        if not isinstance(self.value, kind) or (isinstance(self.value, bool) and kind is not bool):
            shown = json.dumps(self.value, ensure_ascii=False, default=repr)
            shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise InvalidInput(f"{self.place}: {shown} is not {_NAMES[kind]}")
        return self.value


def read_text(path: Path) -> str:
    """Raises InvalidInput for a file that cannot be read as UTF-8 or is empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start})") from error
    if not text.strip():
        raise InvalidInput(f"{path} is empty")
    return text


def parse(text: str, path: Path, first_line: int = 1) -> Field:
    """Raises InvalidInput with the line if the text is not JSON."""
    try:
        return Field(json.loads(text), str(path))
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        at_its_end = error.pos >= len(text.rstrip()) or "Unterminated" in error.msg
        hint = "; is the file cut short?" if at_its_end else ""
        raise InvalidInput(
            f"{path}:{line}: no JSON at column {error.colno}: {error.msg}{hint}"
        ) from error
    except ValueError as error:  # such as a number of too many digits
        raise InvalidInput(f"{path}:{first_line}: no JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}:{first_line}: JSON nested too deeply") from error
