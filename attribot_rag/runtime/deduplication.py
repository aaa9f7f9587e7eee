"""Retrieved texts without sentences that other texts repeat."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.context.sources import group_duplicates
from attribot_rag.context.splitting import sentences, split_spans
from attribot_rag.errors import InvalidInput


@dataclass(frozen=True)
class DeduplicatedText:
    """A remaining text: its index, its text, and the indices of the texts that it replaces.

    `merged` are the indices of texts that are gone because this one says the same, `overlapping`
    those of texts that lost a beginning or an end which stands here. Repetitions within one text
    are removed without a mention.
    """

    index: int
    text: str
    merged: tuple[int, ...] = ()
    overlapping: tuple[int, ...] = ()


def remove_duplicates(
    texts: Sequence[str], *, threshold: float = 0.9, min_overlap: int | None = 30
) -> list[DeduplicatedText]:
    """The rest of the texts, in their order, when nothing is said twice.

    A text is gone if it equals an earlier one, or nearly does, or if another one holds it. Whole
    sentences at its beginning or end that an earlier text holds are cut off, as chunks that overlap
    have them. The same goes for the rest, until nothing more can go. Raises InvalidInput for other
    options.

    Args:
        texts: The retrieved texts.
        threshold: The similarity from which two texts are equal, as for sources.
        min_overlap: The least number of characters that are cut off together; None leaves them.
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"threshold={threshold!r}; use a similarity above 0, at most 1")
    if min_overlap is not None and min_overlap < 1:
        raise InvalidInput(f"min_overlap={min_overlap!r}; use at least 1 character, or None")
    remaining = _RemainingTexts(texts, min_overlap)
    before: dict[int, str] = {}
    while remaining.texts != before:
        before = dict(remaining.texts)
        remaining.merge_equal(threshold)
        remaining.merge_contained()
        remaining.cut_overlaps()
    return remaining.deduplicated()


class _RemainingTexts:
    """The rest of each text, by its index in increasing order, and the texts it stands for."""

    def __init__(self, texts: Sequence[str], min_overlap: int | None) -> None:
        self.texts = dict(enumerate(texts))
        self._min_overlap = math.inf if min_overlap is None else min_overlap
        self._merged: dict[int, set[int]] = defaultdict(set)
        self._overlapping: dict[int, set[int]] = defaultdict(set)

    def merge_equal(self, threshold: float) -> None:
        indices = list(self.texts)
        for first, *repeated in group_duplicates(list(self.texts.values()), threshold=threshold):
            for place in repeated:
                self._absorb(indices[first], indices[place])

    def merge_contained(self) -> None:
        """The longest text that contains others absorbs them."""
        plain = self._plain_texts()
        holders: list[int] = []
        for index in sorted(plain, key=lambda index: (-len(plain[index]), index)):
            holder = next((other for other in holders if plain[index] in plain[other]), None)
            if holder is None:
                holders.append(index)
            else:
                self._absorb(holder, index)

    def cut_overlaps(self) -> None:
        """Cut off the sentences at beginning and end that an earlier text contains."""
        earlier: dict[int, str] = {}
        for index, plain in self._plain_texts().items():
            text = self.texts[index]
            spans = split_spans(text, sentences) if earlier else []
            beginnings = [text[:stop] for _, stop in reversed(spans[:-1])]
            endings = [text[start:] for start, _ in spans[1:]]
            start = self._cut_length(index, beginnings, earlier, len(text))
            end = self._cut_length(index, endings, earlier, len(text) - start)
            if start or end:
                self.texts[index] = text[start : len(text) - end].strip()
            earlier[index] = plain

    def deduplicated(self) -> list[DeduplicatedText]:
        return [
            DeduplicatedText(
                index,
                text,
                tuple(sorted(self._merged[index])),
                tuple(sorted(self._overlapping[index] - self._merged[index] - {index})),
            )
            for index, text in self.texts.items()
        ]

    def _absorb(self, holder: int, index: int) -> None:
        del self.texts[index]
        self._merged[holder] |= {index, *self._merged.pop(index, ())}
        self._overlapping[holder] |= self._overlapping.pop(index, set())

    def _cut_length(
        self, index: int, runs: Sequence[str], earlier: dict[int, str], limit: int
    ) -> int:
        """The length of the longest run of sentences, below the limit, in an earlier text."""
        for run in runs:
            plain = _plain(run)
            if len(plain) - 2 < self._min_overlap or len(run) >= limit:
                continue
            holder = next((place for place, text in earlier.items() if plain in text), None)
            if holder is not None:
                self._overlapping[holder].add(index)
                return len(run)
        return 0

    def _plain_texts(self) -> dict[int, str]:
        return {index: _plain(text) for index, text in self.texts.items()}


def _plain(text: str) -> str:
    """Words in lower case between single spaces, so that no word is found within another."""
    return f" {' '.join(text.split()).casefold()} "
