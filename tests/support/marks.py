"""Marks of tests: what they need, by their fixtures, and whether they are among the quick ones."""

from collections.abc import Iterable

import pytest

NEEDS = {"smollm2": "embedded", "chromium": "browser"}
LONG = ("slow", "gpu", *NEEDS.values())


def mark(items: Iterable[pytest.Item], rooms: Iterable[str] = ("unit_tests",)) -> None:
    """Mark each test with its needs; those in these folders, if they have none, as quick."""
    for item in items:
        for fixture, marker in NEEDS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
        if not any(map(item.get_closest_marker, LONG)) and set(rooms) & set(item.path.parts):
            item.add_marker("quick")
