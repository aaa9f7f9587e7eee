"""The code that the documentation's pages show."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def code_after(page: str, words: str) -> str:
    """The first block of Python after these words on a page."""
    _, _, after = (DOCS / page).read_text(encoding="utf-8").partition(words)
    return after.split("```python\n")[1].split("```")[0]
