"""Messages that docs/troubleshooting.md names are written by the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
MESSAGES = [
    message
    for cell in re.findall(r"^\| (`.*?) \| ", PAGE, re.MULTILINE)
    for message in re.findall(r"`([^`]+ [^`]*)`", cell)
]
PACKAGES = (
    "attribot-batch",
    "attribot-checks",
    "attribot-server",
    "langchain-attribot",
    "llama-index-postprocessor-attribot",
)
ELSEWHERE = {"Invalid host header"}  # Starlette's, tested by attribot-server
FOLDERS = ("attribot_rag", *(f"integrations/{name}" for name in PACKAGES))


def literals() -> Iterator[str]:
    """All texts in the code, without the values that are filled into them."""
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text("utf-8"))) if "tests" not in path.parts else ()
        for node in nodes:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            yield "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def test_every_message_is_written_by_the_code() -> None:
    """In one literal; between its pieces stand values: dots, quoted names, numbers."""
    assert len(MESSAGES) > 20
    texts = list(literals())
    for message in {*MESSAGES} - ELSEWHERE:
        pieces = filter(None, map(str.strip, re.split(r"\.\.\.|'[^']*'|\d+", message)))
        pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
        assert any(map(pattern.search, texts)), message
