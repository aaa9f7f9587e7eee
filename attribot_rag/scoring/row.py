"""What a scorer is asked for: one ablated prompt with the response after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.context.tokens import Interval
from attribot_rag.generation import Generation


@dataclass(frozen=True)
class Row:
    """New tokens that are read on top of what is already encoded.

    `segments` are positions [start, end) of the full prompt whose keys and values the new tokens
    see; `token_ids` are the new tokens, at positions from `first_position` on. The last ones are
    the response less its last token: the outputs of those and of the token before them predict
    the response.
    """

    segments: tuple[Interval, ...]
    token_ids: tuple[int, ...]
    first_position: int

    @classmethod
    def exact(cls, prompt_ids: Sequence[int], num_shared: int, generation: Generation) -> Row:
        """Everything after the shared beginning of an ablated prompt is encoded again.

        The prompt's last token always is: its output predicts the response's first token.
        """
        visible = min(num_shared, len(prompt_ids) - 1)
        new = (*prompt_ids[visible:], *generation.response_ids[:-1])
        return cls(((0, visible),) if visible else (), tuple(new), visible)

    def full_ids(self, generation: Generation) -> tuple[int, ...]:
        """All token ids of the row in order, shared ones included."""
        shared = [generation.prompt_ids[start:end] for start, end in self.segments]
        return (*(token_id for segment in shared for token_id in segment), *self.token_ids)
