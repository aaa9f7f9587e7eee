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


def exists(path: str, name: str) -> bool:
    source = (ROOT / path).read_text("utf-8")
    return bool(re.search(rf"^(( {{4}})?(async )?def {name}\(|{name} = )", source, re.M))


def test_every_promise_names_a_test_that_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) >= 50
    assert not [f"{path}::{name}" for path, name in named if not exists(path, name)]
    tables = [index for index, row in enumerate(CELLS) if row[-1] == "tested by"]
    assert len(tables) >= 4
    for start in tables:
        for row in CELLS[start + 2 :]:
            if len(row) != len(CELLS[start]) or row in [CELLS[other] for other in tables]:
                break
            assert NAMED.search(row[-1]), row
