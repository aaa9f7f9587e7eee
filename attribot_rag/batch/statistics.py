"""Counts of a batch: verdicts of its answers, and citations of its documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

HARMFUL = -2.0  # nats
_NUM_SHOWN = 10


@dataclass
class DocumentCount:
    """The numbers of answers for which a document was retrieved, cited, or harmful."""

    retrieved: int = 0
    cited: int = 0
    harmful: int = 0


@dataclass
class Statistics:
    """Counts over the results of a batch; memory grows with the number of documents' names.

    `to_check` counts the sentences with values that their cited sources do not have.
    """

    answers: int = 0
    partial: int = 0
    to_check: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    documents: dict[str, DocumentCount] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Mapping[str, Any]]) -> Statistics:
        """The statistics of a folder's results.

        A document goes by its id, else by its title; one without either is not counted. It is
        harmful to an answer that is more likely without it, by 2 nats or more.
        """
        statistics = cls()
        for result in results:
            statistics._add(result["summary"], result["document_scores"])
        return statistics

    def _add(self, summary: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        self.answers += 1
        self.partial += summary["status"] == "partial"
        for sentence in summary["sentences"]:
            self.verdicts[sentence["verdict"] or "none"] += 1
            self.to_check += bool(sentence["checks"])
        for document in summary["documents"]:
            name = document["id"] or document["title"]
            if not name:
                continue
            count = self.documents.setdefault(name, DocumentCount())
            count.retrieved += 1
            count.cited += document["number"] is not None
            count.harmful += scores.get(str(document["index"]), 0.0) <= HARMFUL

    def to_dict(self) -> dict[str, Any]:
        """As JSON: shares of the judged sentences, and each document's counts."""
        judged = sum(self.verdicts.values()) - self.verdicts["trivial"] - self.verdicts["reasoning"]
        return {
            "answers": self.answers,
            "partial": self.partial,
            "sentences": dict(self.verdicts),
            "to_check": self.to_check,
            "shares": {
                kind: round(number / judged, 4)
                for kind, number in self.verdicts.items()
                if kind not in ("trivial", "reasoning")
            },
            "documents": {name: vars(count) for name, count in sorted(self.documents.items())},
        }

    def to_text(self) -> str:
        """A few lines for the terminal."""
        shares = self.to_dict()["shares"]
        lines = [f"{self.answers} answers attributed, {self.partial} of them in part"]
        if shares:
            kinds = ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
            lines.append(f"sentences: {kinds}")
        if self.to_check:
            lines.append(f"sentences with values to check: {self.to_check}")
        lists = {
            "most cited documents": [f"{name} ({count.cited})" for name, count in self.cited],
            "never cited": [name for name, _ in self.never_cited],
            "harmful": [f"{name} ({count.harmful})" for name, count in self.harmful],
        }
        for heading, names in lists.items():
            more = f" and {len(names) - _NUM_SHOWN} more" if len(names) > _NUM_SHOWN else ""
            lines += [f"{heading}: {', '.join(names[:_NUM_SHOWN])}{more}"] if names else []
        return "\n".join(lines) + "\n"

    @property
    def cited(self) -> list[tuple[str, DocumentCount]]:
        """The cited documents, most often cited first."""
        return self._ranked(lambda count: count.cited)

    @property
    def never_cited(self) -> list[tuple[str, DocumentCount]]:
        """The other documents, most often retrieved first."""
        return self._ranked(lambda count: 0 if count.cited else count.retrieved)

    @property
    def harmful(self) -> list[tuple[str, DocumentCount]]:
        """The documents that made an answer less likely, most often first."""
        return self._ranked(lambda count: count.harmful)

    def _ranked(self, rank: Callable[[DocumentCount], int]) -> list[tuple[str, DocumentCount]]:
        """The documents with a rank above 0, highest first."""
        ranked = [(name, count) for name, count in self.documents.items() if rank(count)]
        return sorted(ranked, key=lambda item: -rank(item[1]))
