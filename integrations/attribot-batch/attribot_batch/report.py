"""Counts over a batch's answers, and the page that shows them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribot_rag.display import (
    YOUR_FILES,
    on_one_line,
    page_part,
    page_templates,
    render_summary,
    words_for,
)
from attribot_rag.result import Basis

HARMFUL = -2.0  # nats
TO_CHECK = ("contradicted", "in_no_document", "not_cited", "message")
"""Remarks on a value that the cited text lacks."""
_NUM_SHOWN = 10
_NOT_JUDGED = (None, "trivial", "reasoning")
_SUPPORT = ("full", "partial", "contradicted", "none")


@dataclass
class DocumentCount:
    """For how many answers a document was retrieved, cited, or harmful."""

    retrieved: int = 0
    cited: int = 0
    harmful: int = 0


@dataclass
class Statistics:
    """Counts over the results of a batch. Memory grows with the number of documents.

    `to_check` counts sentences with values that are missing from their cited sources. `states`
    counts the judged sentences by the words that users see, and `support` by whether retrieved text
    supports them. `read` counts the answers of other models, by the reader that read them.
    `rejected` counts records without an attribution, and `reason` is the first of their reasons.
    `waits` says that the input ends with an incomplete line.
    """

    answers: int = 0
    rejected: int = 0
    reason: str = ""
    waits: bool = False
    incomplete: int = 0
    to_check: int = 0
    read: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    support: Counter[str] = field(default_factory=Counter)
    documents: dict[str, DocumentCount] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Mapping[str, Any]]) -> Statistics:
        """The statistics of a folder's results.

        A document is identified by its id, or else by its title. Without both, it is not counted. A
        document is harmful to an answer that is at least 2 nats likelier without it.
        """
        statistics = cls()
        for result in results:
            statistics._add(result["summary"], result["document_scores"])
        return statistics

    def _add(self, summary: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        self.answers += 1
        self.incomplete += summary["status"] == "incomplete"
        basis: Basis = summary.get("basis") or "cause"
        if basis == "reader":
            self.read[summary["model"]] += 1
        for sentence in summary["sentences"]:
            self.verdicts[sentence["verdict"] or "none"] += 1
            if sentence["verdict"] not in _NOT_JUDGED:
                keys = {remark["key"] for remark in sentence.get("remarks") or []}
                key = sentence["reason"] or sentence["origin"] or sentence["verdict"]
                key = "in_no_document" if "in_no_document" in keys else key
                self.states[words_for(key, YOUR_FILES, basis=basis, value="a value")] += 1
                self.to_check += not keys.isdisjoint(TO_CHECK)
                if support := sentence.get("support"):
                    self.support[support["kind"]] += 1
        for document in summary["documents"]:
            name = document["id"] or document["title"]
            if not name:
                continue
            count = self.documents.setdefault(name, DocumentCount())
            count.retrieved += 1
            count.cited += document["number"] is not None
            count.harmful += scores.get(str(document["index"]), 0.0) <= HARMFUL

    @property
    def basis(self) -> Basis:
        """'reader' if any answer was read by another model than the one that gave it."""
        return "reader" if self.read.total() else "cause"

    @property
    def readers_line(self) -> str:
        """The readers with the numbers of answers that they read, in one line, or ''."""
        readers = ", ".join(f"{count} by {name}" for name, count in self.read.items())
        return readers and words_for("read_all", basis="reader", readers=readers)

    def to_dict(self) -> dict[str, Any]:
        """As JSON: shares of the judged sentences, and the counts of each document."""
        kinds = {kind: self.verdicts[kind] for kind in self.verdicts if kind not in _NOT_JUDGED}
        return {
            "answers": self.answers,
            "incomplete": self.incomplete,
            "sentences": dict(self.verdicts),
            "to_check": self.to_check,
            "read": dict(self.read),
            "shares": _shares(kinds),
            "support": _shares(self.support),
            "documents": {name: vars(count) for name, count in sorted(self.documents.items())},
        }

    def to_text(self) -> str:
        """A few lines for the terminal. Control characters in names are made visible."""
        unfinished = f", {self.incomplete} of them not fully checked" if self.incomplete else ""
        lines = [f"{self.answers} answers{unfinished}"]
        if self.rejected:
            first = f", the first is: {on_one_line(self.reason)}" if self.reason else ""
            lines.append(f"{self.rejected} rejected: rejects.jsonl has the reasons{first}")
        if self.waits:
            lines.append("1 line waits: the input ends with it, and it has no line break yet")
        lines += [self.readers_line] if self.readers_line else []
        if total := self.states.total():
            shares = (f"{count / total:.0%} {state}" for state, count in self.states.most_common())
            lines.append(f"sentences: {', '.join(shares)}")
        if total := self.support.total():
            shares = (
                f"{self.support[kind] / total:.0%} {words_for(f'says_{kind}', YOUR_FILES)}"
                for kind in _SUPPORT
                if self.support[kind]
            )
            lines.append(f"support: {', '.join(shares)}")
        if self.to_check:
            lines.append(f"sentences with values to check: {self.to_check}")
        lists = {
            "most cited documents": [f"{name} ({count.cited})" for name, count in self.cited],
            "not used": [name for name, _ in self.never_cited],
            "harmful": [f"{name} ({count.harmful})" for name, count in self.harmful],
        }
        for heading, names in lists.items():
            more = f" and {len(names) - _NUM_SHOWN} more" if len(names) > _NUM_SHOWN else ""
            lines += [f"{heading}: {', '.join(names[:_NUM_SHOWN])}{more}"] if names else []
        return "".join(f"{on_one_line(line)}\n" for line in lines)

    @property
    def cited(self) -> list[tuple[str, DocumentCount]]:
        """The cited documents, those cited most often first."""
        return self._ranked(lambda count: count.cited)

    @property
    def never_cited(self) -> list[tuple[str, DocumentCount]]:
        """The other documents, those retrieved most often first."""
        return self._ranked(lambda count: 0 if count.cited else count.retrieved)

    @property
    def harmful(self) -> list[tuple[str, DocumentCount]]:
        """The documents that made answers less likely. Those that did so for most answers come
        first."""
        return self._ranked(lambda count: count.harmful)

    def _ranked(self, rank: Callable[[DocumentCount], int]) -> list[tuple[str, DocumentCount]]:
        """The documents with a rank above 0, highest first."""
        ranked = [(name, count) for name, count in self.documents.items() if rank(count)]
        return sorted(ranked, key=lambda item: (-rank(item[1]), item[0]))


def _shares(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {kind: round(count / total, 4) for kind, count in counts.items()}


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
