"""A page that shows where a batch's answers come from, and the sentences to review."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribot_batch.statistics import TO_CHECK, Statistics
from attribot_rag.display import (
    YOUR_FILES,
    page_part,
    page_templates,
    render_summary,
    words_for,
)

MOST = 200
KINDS = {
    kind: words_for(kind, YOUR_FILES) for kind in ("check", "says_partial", "unsupported", "open")
}
_FOLDER = "answers"


@dataclass(frozen=True)
class Item:
    """A sentence to review: its record's number and id, the question, and the reason.

    `kind` is one of KINDS. `reason` says more, or is ''.
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


def render_report(
    statistics: Statistics,
    setting: Mapping[str, Any],
    *,
    records: int,
    rejects: Mapping[str, int],
    items: Sequence[Item],
) -> str:
    """A page that loads nothing from elsewhere. Nothing in a document's name takes effect.

    `rejects` are the numbers of rejected records by type of error. `items` are the sentences to
    review, with links to the pages of their answers.
    """
    return (
        page_templates("attribot_batch")
        .get_template("report.html")
        .render(
            style=page_part("page.css") + page_part("report.css", "attribot_batch"),
            basis=statistics.basis,
            readers=statistics.readers_line,
            told={**statistics.to_dict(), "records": records, "rejected": sum(rejects.values())},
            states=statistics.states,
            items=items,
            kinds={kind: words_for(kind, YOUR_FILES, basis=statistics.basis) for kind in KINDS},
            counts=Counter(item.kind for item in items),
            lists=[
                ("Cited documents", statistics.cited),
                ("Not used", statistics.never_cited),
                ("Harmful", statistics.harmful),
            ],
            rejects=sorted(rejects.items()),
            most=MOST,
            **{name: setting[name] for name in ("input", "model", "method")},
        )
    )


def worklist(results: Iterable[Mapping[str, Any]], most: int = MOST) -> list[Item]:
    """The first `most` sentences to review, in the order of KINDS."""
    kinds = list(KINDS)
    items = (item for result in results for item in _items(result))
    return heapq.nsmallest(most, items, key=lambda item: (kinds.index(item.kind), item.number))


def write_pages(folder: Path, results: Iterable[Mapping[str, Any]], items: Iterable[Item]) -> None:
    """Write a page for each answer that has an item."""
    numbers = {item.number for item in items}
    (folder / _FOLDER).mkdir(exist_ok=True)
    for result in results:
        if result["number"] in numbers:
            data = {"summary": result["summary"], "answer": result["response"]}
            question = result["summary"].get("question") or ""
            page = render_summary(data, question=question)
            path = folder / _FOLDER / f"{result['number']}.html"
            path.write_text(page, encoding="utf-8")


def _items(result: Mapping[str, Any]) -> Iterator[Item]:
    name = "" if result["id"] is None else str(result["id"])
    question = result["summary"].get("question") or ""
    for sentence in result["summary"]["sentences"]:
        remarks = sentence.get("remarks") or []
        keys = {remark["key"] for remark in remarks}
        is_partial = any(key.startswith("prompted") for key in keys)
        kind = "says_partial" if is_partial else sentence["verdict"]
        kind = kind if keys.isdisjoint(TO_CHECK) else "check"
        if kind in KINDS and sentence.get("reason") != "cut":
            reason = "; ".join(remark["text"] for remark in remarks)
            yield Item(result["number"], name, question, sentence["text"].strip(), kind, reason)
