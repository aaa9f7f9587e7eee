"""Every test that the tables of docs/evaluation/reliability.md name exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "evaluation" / "reliability.md").read_text("utf-8")
CELLS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|")
]
NAMED = re.compile(r"`([\w/.-]+\.py)::(\w+)`")


def test_every_named_test_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) >= 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(
            rf"^( {{4}})?(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.M
        )
        and not re.search(rf"^{name} = ", (ROOT / path).read_text("utf-8"), re.M)
    ]
    assert not missing


def test_every_promise_names_its_test() -> None:
    tables = [index for index, row in enumerate(CELLS) if row[-1] == "tested by"]
    assert len(tables) >= 4
    for start in tables:
        for row in CELLS[start + 2 :]:
            if len(row) != len(CELLS[start]) or row in [CELLS[other] for other in tables]:
                break
            assert NAMED.search(row[-1]), row
