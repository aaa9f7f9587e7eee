"""The text of a response, and which characters of it each token stands for."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context.intervals import Interval
from attribot_rag.context.tokens import token_anchors
from attribot_rag.errors import InvalidInput


@dataclass(frozen=True)
class ResponseText:
    """A response as it was shown; `token_spans` are the characters [start, end) of each token."""

    text: str
    token_spans: tuple[Interval, ...]

    def tokens_in(self, start: int, end: int) -> range:
        """Indices of the tokens whose first non-space character is in [start, end).

        Tokens without text at the end of the response belong to its last character. Raises
        InvalidInput for characters outside the response.
        """
        if not 0 <= start <= end <= len(self.text):
            raise InvalidInput(
                f"characters {start} to {end} are not in the response of {len(self.text)}"
            )
        last = len(self.text) - 1
        anchors = token_anchors(self.token_spans, self.text)
        chosen = [index for index, anchor in enumerate(anchors) if start <= min(anchor, last) < end]
        return range(chosen[0], chosen[-1] + 1) if chosen else range(0)
