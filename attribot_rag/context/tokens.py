"""Token ids with their text and the characters of each token."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from attribot_rag.cached_property import cached_property
from attribot_rag.context.alignment import places_in
from attribot_rag.context.intervals import Interval, merge
from attribot_rag.model.language_model import LanguageModel

# Enough tokens for a character of four bytes, in each alignment of its bytes.
_TAILS = range(8, 12)
_MAX_TAILS = 1_024


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """Token ids, their decoded text, and the characters [start, end) of each token.

    Spans are in order and cover the text; tokens that make a character only together (the bytes
    of an emoji, for example) share a span. `placeholders` are the characters of tokens that stand
    for something else than text, such as an image.
    """

    ids: tuple[int, ...]
    text: str
    spans: tuple[Interval, ...]
    placeholders: tuple[Interval, ...] = ()

    @classmethod
    def of(
        cls, ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool = False
    ) -> TokenizedText:
        """Decode the ids token by token; works for any tokenizer, and never encodes."""
        text = ""
        spans: list[Interval] = []
        for piece, num_tokens in _decoded(
            ids, language_model, skip_special_tokens=skip_special_tokens
        ):
            spans += [(len(text), len(text) + len(piece))] * num_tokens
            text += piece
        placeholder_ids = language_model.weights.placeholder_ids
        placeholders = (
            span for span, token_id in zip(spans, ids, strict=True) if token_id in placeholder_ids
        )
        return cls(tuple(ids), text, tuple(spans), tuple(merge(placeholders)))

    @cached_property
    def anchors(self) -> tuple[int, ...]:
        """For each token the character that decides to which source it belongs."""
        return token_anchors(self.spans, self.text)

    def tokens_in(self, interval: Interval) -> range:
        """Indices of the tokens that belong to these characters (by their anchors)."""
        start, end = interval
        return range(bisect_left(self.anchors, start), bisect_left(self.anchors, end))

    def tokens_touching(self, interval: Interval) -> range:
        """Indices of the tokens with at least one character in the interval."""
        start, end = interval
        first = bisect_right(self.spans, start, key=itemgetter(1))
        return range(first, bisect_left(self.spans, end, key=itemgetter(0)))

    def aligned(self, shown: str | None) -> tuple[str, tuple[Interval, ...]]:
        """The response as its reader saw it, and the characters [start, end) of each token in it.

        The shown text may differ a little from the decoded one; None stands for the decoded text
        without the white space around it.
        """
        text = self.text.strip() if shown is None else shown
        start = self.text.find(text.strip())
        if start >= 0:
            start -= len(text) - len(text.lstrip())
            places = [min(max(index - start, 0), len(text)) for index in range(len(self.text) + 1)]
        else:
            places = places_in(text, self.text)
        return text, tuple((places[first], places[last]) for first, last in self.spans)


def token_anchors(spans: Sequence[Interval], text: str) -> tuple[int, ...]:
    """For each token its first character that is not white space, or its start if all are.

    `spans` are the tokens' characters [start, end) of the text.
    """
    anchors = []
    for start, end in spans:
        anchor = end - len(text[start:end].lstrip())
        anchors.append(anchor if anchor < end else start)
    return tuple(anchors)


def _decoded(
    ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool
) -> Iterable[tuple[str, int]]:
    """Consecutive pieces of the decoded text, each with the number of its tokens."""
    streamed = language_model.stream(ids, skip_special_tokens=skip_special_tokens)
    if streamed is None or any(
        piece is None and _must_end(ids, index + 1, language_model)
        for index, piece in enumerate(streamed)
    ):
        return decoded_in_windows(ids, language_model, skip_special_tokens=skip_special_tokens)
    completed = [piece for piece in streamed if piece is not None]
    ends = [0, *(index for index, piece in enumerate(streamed, 1) if piece is not None)]
    return zip(completed, (end - start for start, end in pairwise(ends)), strict=True)


def decoded_in_windows(
    ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool
) -> Iterator[tuple[str, int]]:
    """The same for any tokenizer and any ids.

    Each window holds the tokens of the piece before, because some tokenizers treat a first token
    differently. While a text is incomplete its last tokens are decoded first, so that the time is
    linear for a text of replacement characters, too.
    """

    def decode(start: int, end: int) -> str:
        return language_model.decode(ids[start:end], skip_special_tokens=skip_special_tokens)

    @lru_cache(_MAX_TAILS)
    def is_incomplete(tail: tuple[int, ...]) -> bool:
        return _is_incomplete(language_model.decode(tail, skip_special_tokens=skip_special_tokens))

    window, done, before = 0, 0, ""
    for end in range(1, len(ids) + 1):
        forced = _must_end(ids, end, language_model)
        if (
            not forced
            and end - done > max(_TAILS)
            and all(is_incomplete(tuple(ids[end - length : end])) for length in _TAILS)
        ):
            continue
        decoded = decode(window, end)
        if not forced and (len(decoded) <= len(before) or _is_incomplete(decoded)):
            continue
        yield decoded[len(before) :], end - done
        window, done = done, end
        before = decode(window, done)


def _must_end(ids: Sequence[int], end: int, language_model: LanguageModel) -> bool:
    """Whether a piece of text cannot continue after the first `end` tokens."""
    return end == len(ids) or ids[end] in language_model.boundary_ids


def _is_incomplete(text: str) -> bool:
    """Whether a text may end with the first bytes of a character, or holds no other."""
    return text[-1:] in ("", "\ufffd")
