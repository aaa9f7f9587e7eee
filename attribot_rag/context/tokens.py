"""Tokens as they were seen, with the characters that each of them stands for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attribot_rag.language_model import LanguageModel

Interval = tuple[int, int]


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """Token ids, their decoded text, and the characters [start, end) of each token.

    Spans are in order and cover the text; tokens that only together make a character (the bytes
    of an emoji, say) share one span.
    """

    ids: tuple[int, ...]
    text: str
    spans: tuple[Interval, ...]

    @classmethod
    def of(
        cls,
        ids: Sequence[int],
        language_model: LanguageModel,
        *,
        skip_special_tokens: bool = False,
    ) -> TokenizedText:
        """Decode step by step, so that the ids stay those that were seen.

        Works for any tokenizer, fast or slow, and never encodes. Each step decodes the tokens
        since the last but one finished step, because some tokenizers treat a first token apart.
        """
        text = ""
        spans: list[Interval] = []
        window, unread = 0, 0
        known = ""
        for end in range(1, len(ids) + 1):
            decoded = language_model.decode(
                ids[window:end], skip_special_tokens=skip_special_tokens
            )
            unfinished = decoded.endswith("\ufffd") or len(decoded) <= len(known)
            if unfinished and end < len(ids) and ids[end] not in language_model.boundary_ids:
                continue
            piece = decoded[len(known) :]
            spans += [(len(text), len(text) + len(piece))] * (end - unread)
            text += piece
            window, unread = unread, end
            known = language_model.decode(
                ids[window:unread], skip_special_tokens=skip_special_tokens
            )
        return cls(tuple(ids), text, tuple(spans))

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.spans]

    @cached_property
    def _ends(self) -> list[int]:
        return [end for _, end in self.spans]

    @cached_property
    def anchors(self) -> tuple[int, ...]:
        """For each token the character that decides where it belongs."""
        return token_anchors(self.spans, self.text)

    def tokens_in(self, interval: Interval) -> range:
        """Indices of the tokens that belong to these characters (by their anchors)."""
        start, end = interval
        return range(bisect_left(self.anchors, start), bisect_left(self.anchors, end))

    def tokens_touching(self, interval: Interval) -> range:
        """Indices of the tokens with at least one character in the interval."""
        start, end = interval
        return range(bisect_right(self._ends, start), bisect_left(self._starts, end))


def token_anchors(spans: Sequence[Interval], text: str) -> tuple[int, ...]:
    """For each token its first character that is not white space, or its start if all are.

    `spans` are the tokens' characters [start, end) of the text.
    """
    return tuple(
        start + len(piece) - len(piece.lstrip()) if piece.strip() else start
        for start, end in spans
        for piece in (text[start:end],)
    )


def tokens_in(spans: Sequence[Interval], text: str, start: int, end: int) -> range:
    """Indices of the tokens whose anchor is one of the characters [start, end) of the text.

    Tokens without any characters at the end of the text belong to its last character.
    """
    chosen = [
        index
        for index, anchor in enumerate(token_anchors(spans, text))
        if start <= min(anchor, len(text) - 1) < end
    ]
    return range(chosen[0], chosen[-1] + 1) if chosen else range(0)
