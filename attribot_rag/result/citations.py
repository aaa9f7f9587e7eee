"""The cited sources of each sentence of the answer, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from attribot_rag.context.splitting.blocks import json_in
from attribot_rag.context.splitting.splitter import language_of, make_splitter
from attribot_rag.context.text import Interval
from attribot_rag.result.result import Result
from attribot_rag.result.segments import AnswerMarks, do_lead, segments
from attribot_rag.result.verdict import Relation, Verdict

MIN_SCORE = 1.0
MIN_SHARE = 0.5


@dataclass(frozen=True)
class CitedSentence:
    """Characters [start, end) of the response and the ids of the sources it cites, best first.

    `relation` is that of the verdict: with 'either' any of the sources carries the sentence.
    `verdict` is None for a result without verdicts.
    """

    start: int
    end: int
    source_ids: tuple[int, ...]
    relation: Relation = "each"
    verdict: Verdict | None = None

    @property
    def named(self) -> tuple[int, ...]:
        """The sources that it cites, then those that say it, or say it otherwise."""
        verdict = self.verdict
        if verdict is None or verdict.support is None:
            return self.source_ids
        support = verdict.support
        says = support.source_ids if verdict.kind == "unsupported" else ()
        rivals = (rival.source for rival in support.rivals)
        return tuple(dict.fromkeys((*self.source_ids, *says, *rivals)))


@dataclass(frozen=True)
class Citations:
    """The sentences of a response, and `numbers` of the cited documents.

    Documents are numbered from 1 in the order in which they are first cited. Where the model wrote
    markers such as [2] of its own, they are numbered as the prompt numbers them, and so the
    markers, unless the attribution's `numbering` is 'by_citation'; documents that share a label in
    the prompt then share their number, and `names` has the labels that are no numbers, by the
    document.
    """

    sentences: tuple[CitedSentence, ...]
    numbers: dict[int, int]
    names: Mapping[int, str] = field(default_factory=dict)
    by_marker: bool = False

    def __iter__(self) -> Iterator[CitedSentence]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)


def cite(
    attribution: Result, *, min_score: float = MIN_SCORE, min_share: float = MIN_SHARE
) -> Citations:
    """The citations of each sentence of the answer, by its verdict.

    In a result without verdicts, sources are cited by a rule of thumb; nothing is cited for scores
    of another unit than nats. Documents that hold a cited source all get a number; so do those that
    a remark names, because they say a sentence, or say it otherwise.

    Args:
        attribution: The result whose answer is cited.
        min_score: The least score of a cited source for the sentence, in nats, without verdicts.
        min_share: The least share of the best source's score, without verdicts.
    """
    cited = [
        CitedSentence(verdict.start, verdict.end, verdict.source_ids, verdict.relation, verdict)
        for verdict in attribution.verdicts
    ]
    if not cited:
        text = attribution.response
        cited_texts = {
            (marker.start, marker.end): ""
            if marker.document is None
            else attribution.documents[marker.document].text
            for marker in attribution.markers
        }
        spans = sorted(cited_texts)
        lead = do_lead(text, spans, [cited_texts[span] for span in spans])
        json = [span for span in json_in(text, 0, len(text)) if span not in cited_texts]
        marks = AnswerMarks(
            leading=spans if lead else (), trailing=() if lead else spans, json=json
        )
        option = attribution.provenance.options.get("language")
        texts = (document.text for document in attribution.documents)
        language = str(option or language_of(text, texts))
        splitter = make_splitter("sentence", language)
        cited = [
            _by_rule(attribution, span, min_score, min_share)
            if is_sentence
            else CitedSentence(*span, ())
            for span, is_sentence in segments(text, 0, len(text), splitter, marks)
        ]
    by_marker = attribution.numbering == "by_marker" and any(
        marker.document is not None for marker in attribution.markers
    )
    numbers: dict[int, int] = {}
    for sentence in cited:
        for source_id in sentence.named:
            for document in attribution.sources[source_id].documents:
                in_prompt = attribution.prompt_numbers.get(document, document + 1)
                numbers.setdefault(document, in_prompt if by_marker else len(numbers) + 1)
    names = attribution.prompt_names if by_marker else {}
    return Citations(tuple(cited), numbers, names, by_marker)


def _by_rule(
    attribution: Result, span: Interval, min_score: float, min_share: float
) -> CitedSentence:
    if attribution.unit != "nats":
        return CitedSentence(*span, ())
    ranked = attribution.top(len(attribution.sources), *span)
    least = max(min_score, min_share * ranked[0].score) if ranked else min_score
    return CitedSentence(
        *span, tuple(ranking.source.id for ranking in ranked if ranking.score >= least)
    )


@dataclass(frozen=True)
class Mark:
    """The numbers of cited documents: '1', or '1 or 2' where either document suffices.

    `names` stand in their place where the prompt calls the documents so.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, self.numbers))

    def __str__(self) -> str:
        return " or ".join(self.labels)


def mark_of(documents: Iterable[int], citations: Citations) -> Mark | None:
    """The mark of those of some documents that have a number."""
    names = {
        citations.numbers[i]: citations.names.get(i, "")
        for i in {*documents} & {*citations.numbers}
    }
    return named_mark(names) if names else None


def named_mark(names: Mapping[int, str]) -> Mark:
    """The mark of some numbers, with names if there are any."""
    numbers = tuple(sorted(names))
    labels = tuple(names[number] or str(number) for number in numbers)
    return Mark(numbers, labels if any(names.values()) else ())
