"""Every test that the tables of docs/evaluation/reliability.md name exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "evaluation" / "reliability.md").read_text("utf-8")
NAMED = re.compile(r"`([\w/.-]+\.py)::(\w+)`")


def exists(path: str, name: str) -> bool:
    source = (ROOT / path).read_text("utf-8")
    return bool(re.search(rf"^(( {{4}})?(async )?def {name}\(|{name} = )", source, re.M))


def test_every_promise_names_a_test_that_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) >= 50
    assert not [f"{path}::{name}" for path, name in named if not exists(path, name)]
