"""The sentences of a batch that a person should look at, and the pages of their answers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from attribot_rag.display.html import render_summary

MOST = 200
KINDS = {"check": "a value to check", "unsupported": "the model’s own", "open": "undecided"}
_FOLDER = "answers"


@dataclass(frozen=True)
class Item:
    """A sentence to look at: the number and the id of its record, what was asked, and why.

    `kind` is one of KINDS, `reason` says more of it or is ''.
    """

    number: int
    name: str
    question: str
    sentence: str
    kind: str
    reason: str

    @property
    def page(self) -> str:
        """The path of the answer's page in the batch's folder."""
        return f"{_FOLDER}/{self.number}.html"

    @property
    def rank(self) -> int:
        return list(KINDS).index(self.kind)


def worklist(results: Iterable[Mapping[str, Any]], most: int = MOST) -> list[Item]:
    """The first `most` sentences to look at: values to check, then the model's own, then others."""
    items = (item for result in results for item in _items(result))
    return heapq.nsmallest(most, items, key=attrgetter("rank", "number"))


def write_pages(folder: Path, results: Iterable[Mapping[str, Any]], items: Iterable[Item]) -> None:
    """Write a page for each answer that has an item."""
    numbers = {item.number for item in items}
    (folder / _FOLDER).mkdir(exist_ok=True)
    for result in results:
        if result["number"] in numbers:
            data = {"summary": result["summary"], "answer": result["response"]}
            question = result["summary"].get("query") or ""
            page = render_summary(data, question=question)
            path = folder / _FOLDER / f"{result['number']}.html"
            path.write_text(page, encoding="utf-8")


def _items(result: Mapping[str, Any]) -> Iterator[Item]:
    name = "" if result["id"] is None else str(result["id"])
    question = result["summary"].get("query") or ""
    for sentence in result["summary"]["sentences"]:
        checks = sentence.get("checks") or []
        kind = "check" if checks else sentence["verdict"]
        if kind in KINDS and sentence.get("reason") != "cut":
            reason = "; ".join(map(_compared, checks))
            yield Item(result["number"], name, question, sentence["text"].strip(), kind, reason)


def _compared(check: Mapping[str, Any]) -> str:
    value = check["value"] or check["kind"]
    return value if check["source_value"] is None else f"{value} ≠ {check['source_value']}"
