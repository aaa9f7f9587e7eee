"""The hand-written cases: a question, ten documents, and a long answer labelled by sentence."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Verdict
from attribot_rag.model.chat_messages import Message

_FILE = Path(__file__).with_name("cases.json")
_TEMPLATE = "Answer the question from the documents, in Markdown.\n\n{}\n\nQuestion: {}"


@dataclass(frozen=True)
class LongCase:
    """A fixed answer in Markdown, and the documents that its sentences rest on.

    A label is the beginning of a sentence, an item, a row or a block of code, with the ids of
    documents; none for what is invented or says nothing of them. Headings have no label.
    """

    question: str
    documents: tuple[Document, ...]
    answer: str
    labels: tuple[tuple[str, frozenset[str]], ...]

    @property
    def prompt(self) -> list[Message]:
        texts = "\n\n".join(document.text for document in self.documents)
        return [{"role": "user", "content": _TEMPLATE.format(texts, self.question)}]

    @cached_property
    def _starts(self) -> dict[int, frozenset[str]]:
        return {self.answer.index(text): documents for text, documents in self.labels}

    def label_of(self, verdict: Verdict) -> frozenset[str] | None:
        """The documents that a sentence rests on; None without a label."""
        within = [ids for at, ids in self._starts.items() if verdict.start <= at < verdict.end]
        return frozenset().union(*within) if within else None

    def citations(self, attribution: Attribution) -> Citations:
        """Compare the cited documents of each labelled sentence with its label."""
        right = false = 0
        missed = Counter[str]()
        for verdict in attribution.verdicts:
            label = self.label_of(verdict)
            if label is None:
                continue
            cited = [
                {str(self.documents[index].id) for index in attribution.sources[source].documents}
                for source in verdict.source_ids
            ]
            documents = frozenset().union(*cited)
            right += len(documents & label)
            false += sum(not holders & label for holders in cited)
            missed[verdict.kind] += len(label - documents)
        return Citations(right, false, dict(+missed))


@dataclass(frozen=True)
class Citations:
    """Of all sentences: labelled documents that are cited, sources cited from other documents,
    labelled documents that are not cited, by the kind of verdict."""

    right: int
    false: int
    missed: dict[str, int]


def cases() -> list[LongCase]:
    return [
        LongCase(
            question=case["question"],
            documents=tuple(Document(each["text"], id=each["id"]) for each in case["documents"]),
            answer=case["answer"],
            labels=tuple((each["text"], frozenset(each["documents"])) for each in case["labels"]),
        )
        for case in json.loads(_FILE.read_text(encoding="utf-8"))
    ]
