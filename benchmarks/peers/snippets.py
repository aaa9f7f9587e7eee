"""The code that a user of each peer writes, as the page shows it."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^### (?P<name>.+?)\n(?P<text>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines_of_code(page: str) -> dict[str, int]:
    """For each section of level 3, the lines of its first Python block, comments left out."""
    return {
        section["name"]: sum(
            bool(line.strip()) and not line.strip().startswith("#")
            for line in found[1].splitlines()
        )
        for section in _SECTION.finditer(page)
        if (found := _CODE.search(section["text"]))
    }
