"""Long codes, such as telephone numbers and IBANs, and addresses of mail and web pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from attribot_checks.numerals import Span
from attribot_rag.annotation import Interval

_LEAST = 7  # digits
_ALIKE = 0.7
_PREFIX = 4  # digits of a country's code, which may be left out
_RUN = re.compile(r"\d+(?:[ \u00a0\u202f().‐‑–/-]{1,3}\d+)*")
_TRUNK = re.compile(r"\(0\)")
_OTHER = re.compile(r"\D+")
_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)(?:[^\s<>\"'\]()|]|\([^\s()]*\))*[\w/)]",
    re.IGNORECASE,
)
_BEFORE_HOST = re.compile(r"(?:https?://)?(?:www\.)?", re.IGNORECASE)


@dataclass(frozen=True)
class Code(Span):
    """The digits of neighbouring `groups`, without leading zeros."""

    digits: str
    groups: int

    def is_same(self, other: Code) -> bool:
        """Whether the other code has the same digits, perhaps without the code of a country."""
        longer = len(self.digits) - len(other.digits)
        is_national = 0 < longer <= _PREFIX and self.digits.endswith(other.digits)
        return self.digits in other.digits or is_national

    def is_altered(self, other: Code) -> bool:
        """Whether the other code has as many digits, most of them the same.

        Two groups are no code.
        """
        equal = sum(a == b for a, b in zip(self.digits, other.digits, strict=False))
        is_code = self.groups > 2 and len(self.digits) == len(other.digits)
        return is_code and _ALIKE * len(self.digits) <= equal < len(self.digits)


def codes(text: str) -> Iterator[Code]:
    for run in _RUN.finditer(text):
        digits = _OTHER.sub("", _TRUNK.sub("", run[0])).lstrip("0")
        if len(digits) >= _LEAST:
            yield Code(*run.span(), digits, len(_OTHER.split(run[0])))


def addresses(text: str) -> list[Interval]:
    """The characters of the e-mail addresses and URLs in a text, in order."""
    return [match.span() for match in _ADDRESS.finditer(text)]


def has_address(text: str, address: str) -> bool:
    """Whether an address stands in a text, in any case, perhaps as the start of a longer URL."""
    host = re.escape(_BEFORE_HOST.sub("", address, count=1).rstrip("/"))
    return re.search(rf"(?<![\w@+-]){host}(?![\w@-]|\.\w)", text, re.IGNORECASE) is not None
