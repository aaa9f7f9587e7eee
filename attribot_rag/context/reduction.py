"""The context of a reduced prompt, from which text was removed for all further scores."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from rapidfuzz.distance import Indel

from attribot_rag.context.ablation import Ablation
from attribot_rag.context.context import Context
from attribot_rag.context.document import Occurrence
from attribot_rag.context.intervals import Interval
from attribot_rag.context.tokens import TokenizedText
from attribot_rag.language_model import LanguageModel


def reduced(context: Context, removed: Ablation, language_model: LanguageModel) -> Context:
    """The context of the prompt without the ablated text; sources keep their ids.

    A removed source has no occurrences.
    """
    cut = context.removed(removed)
    if not cut:
        return context
    ids = context.ablate(removed, language_model).ids
    prompt = TokenizedText.of(ids, language_model)
    places = _Places(context.prompt.text, prompt.text, cut)

    def moved(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        shifted = ((places[start], places[end]) for start, end in intervals)
        return tuple((start, end) for start, end in shifted if start < end)

    sources = tuple(
        replace(
            source,
            occurrences=tuple(
                Occurrence(*interval, occurrence.spans)
                for occurrence in source.occurrences
                if source.id not in removed.source_ids
                for interval in moved([(occurrence.start, occurrence.end)])
            ),
        )
        for source in context.sources
    )
    return replace(
        context,
        prompt=prompt,
        sources=sources,
        regions=moved(context.regions),
        conversation=moved(context.conversation),
    )


class _Places:
    """Maps characters of the old text to their places in the new text."""

    def __init__(self, old: str, new: str, removed: Sequence[Interval]) -> None:
        self._moves = [(start, end) for start, end in removed]
        if "".join(_kept(old, removed)) != new:
            # Whole tokens were dropped, whose ends are not the ends of the removed text.
            steps = Indel.opcodes(old, new)
            self._moves = [(step.src_start, step.src_end) for step in steps if step.tag == "delete"]
        self._starts = [start for start, _ in self._moves]
        self._removed = [0, *accumulate(end - start for start, end in self._moves)]
        self._length = len(new)

    def __getitem__(self, index: int) -> int:
        count = bisect_right(self._starts, index)
        if not count:
            return index
        inside = max(0, self._moves[count - 1][1] - index)
        return min(index - self._removed[count] + inside, self._length)


def _kept(text: str, removed: Sequence[Interval]) -> list[str]:
    ends = [0, *(end for _, end in removed)]
    starts = [*(start for start, _ in removed), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]
