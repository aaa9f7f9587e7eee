"""Rows: the new tokens that implementations score after the encoded prompt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation, Context
from attribot_rag.context.text import Interval
from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from attribot_rag.model.generation import Generation
    from attribot_rag.model.language_model import LanguageModel

Recomputed = Literal["response", "question", "document", "rest"]


@dataclass(frozen=True)
class Request:
    """The row of an ablation.

    If it is masked, `recompute` names the tokens that are encoded again.
    """

    ablation: Ablation
    recompute: Recomputed | None = None


FULL_PROMPT = Request(Ablation())


@dataclass(frozen=True)
class TokenBlock:
    """New tokens at consecutive positions from `first_position` on.

    `segments` are the positions [start, end) of the full prompt whose keys and values they see.
    """

    segments: tuple[Interval, ...]
    token_ids: tuple[int, ...]
    first_position: int

    @property
    def positions(self) -> range:
        return range(self.first_position, self.first_position + len(self.token_ids))


@dataclass(frozen=True)
class Row:
    """The new tokens of an ablation. They see their segments and the new tokens before them.

    - `blocks` have the new tokens: the prompt's that are encoded again, and the response without
      its last token.
    - `targets` are the response's tokens. The outputs of the last new tokens predict them. For the
      prompt `a b c` and the response `x y`, the new tokens are `c x`, and the targets `x y`.
    - `kept_response` are the indices of the response tokens to score; None scores all.
    - `is_exact`: text was removed to the character.
    """

    blocks: tuple[TokenBlock, ...]
    targets: tuple[int, ...] = ()
    kept_response: tuple[int, ...] | None = None
    is_exact: bool = False

    @cached_property
    def num_new(self) -> int:
        """The number of new tokens."""
        return sum(len(block.token_ids) for block in self.blocks)

    @cached_property
    def visible_end(self) -> int:
        """The number of positions of the prompt up to the last visible one."""
        return max((end for block in self.blocks for _, end in block.segments), default=0)

    @classmethod
    def for_prompt(cls, prompt_ids: Sequence[int], num_shared: int, generation: Generation) -> Row:
        """A row that encodes again everything after the shared beginning of an ablated prompt.

        This includes the prompt's last token, whose output predicts the response's first token.
        """
        visible = min(num_shared, len(prompt_ids) - 1)
        new = (*prompt_ids[visible:], *generation.response_ids[:-1])
        block = TokenBlock(((0, visible),) if visible else (), tuple(new), visible)
        return cls((block,), generation.response_ids)

    @classmethod
    def masked(
        cls, generation: Generation, hidden: Collection[int], recomputed: Collection[int]
    ) -> Row:
        """A row whose recomputed tokens and response do not see the prompt's hidden positions.

        All tokens keep their positions. The last visible position is always recomputed, because its
        output predicts the response. If all positions are hidden, this is the prompt's last
        position, which sees only itself.
        """
        prompt_ids = generation.prompt_ids
        is_visible = np.ones(len(prompt_ids), dtype=bool)
        is_visible[list(hidden)] = False
        is_visible[-1] |= not is_visible.any()
        is_new = np.zeros_like(is_visible)
        is_new[list(recomputed)] = True
        is_new[np.flatnonzero(is_visible)[-1]] = True
        is_new &= is_visible
        old, redone = np.flatnonzero(is_visible & ~is_new), np.flatnonzero(is_new)
        ids = [*(prompt_ids[i] for i in redone), *generation.response_ids[:-1]]
        end = len(prompt_ids) + len(generation.response_ids) - 1
        blocks = []
        done = 0
        for first, stop in intervals_of(np.append(redone, np.arange(len(prompt_ids), end))):
            segments = tuple(intervals_of(old[: np.searchsorted(old, first)]))
            blocks.append(TokenBlock(segments, tuple(ids[done : done + stop - first]), first))
            done += stop - first
        return cls(tuple(blocks), generation.response_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(block.token_ids for block in self.blocks))

    @property
    def positions(self) -> list[int]:
        return list(chain.from_iterable(block.positions for block in self.blocks))

    @property
    def has_no_gap(self) -> bool:
        """Whether all new tokens follow a beginning of the prompt, without a gap."""
        first = self.blocks[0].first_position
        beginning = ((0, first),) if first else ()
        return len(self.blocks) == 1 and self.blocks[0].segments == beginning

    def full_ids(self, generation: Generation) -> tuple[int, ...]:
        """The ids of the prompt up to the last visible position, and the new ids after them."""
        return (*generation.prompt_ids[: self.visible_end], *self.token_ids)


def make_row(
    request: Request, context: Context, generation: Generation, language_model: LanguageModel
) -> Row:
    """The row of a request. Without `recompute`, it may be as long as the prompt."""
    ablation, recompute = request.ablation, request.recompute
    kept = ablation.kept_response
    shortened = with_response_tokens(generation, kept)
    if recompute is not None:
        return replace(masked_row(context, shortened, ablation, recompute), kept_response=kept)
    if request == FULL_PROMPT:
        full = Row.for_prompt(shortened.prompt_ids, len(shortened.prompt_ids), shortened)
        return replace(full, is_exact=True)
    prompt = context.ablate(ablation, language_model)
    row = Row.for_prompt(prompt.ids, prompt.num_shared, shortened)
    return replace(row, kept_response=kept, is_exact=prompt.in_step)


def intervals_of(positions: NDArray[np.int64]) -> list[Interval]:
    """Ascending positions as intervals [start, end) of neighbours."""
    neighbours = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return [(int(group[0]), int(group[-1]) + 1) for group in neighbours if len(group)]


def check_recompute(recompute: str) -> None:
    """Raises InvalidInput unless masked ablation can encode these tokens again."""
    if recompute not in get_args(Recomputed):
        raise InvalidInput(
            f"recompute={recompute!r}; choose one of {', '.join(get_args(Recomputed))}"
        )


def masked_row(
    context: Context, generation: Generation, ablation: Ablation, recompute: Recomputed
) -> Row:
    """A row that hides the ablated tokens from the tokens that are encoded again.

    With 'response', these are the response's tokens. 'question' adds all tokens after the
    documents. 'document' also adds the tokens after the ablated sources within their documents.
    'rest' adds all tokens after the first ablated one. Raises InvalidInput for another value.
    """
    check_recompute(recompute)
    hidden = context.hidden_tokens(ablation)
    recomputed: list[int] = []
    if recompute == "document":
        recomputed += context.following_tokens(ablation)
    if recompute == "rest":
        recomputed += range(min(hidden, default=context.query_start), context.query_start)
    if recompute != "response":
        recomputed += range(context.query_start, len(generation.prompt_ids))
    return Row.masked(generation, hidden, recomputed)


def with_response_tokens(generation: Generation, kept: tuple[int, ...] | None) -> Generation:
    """The generation with only these tokens of its response; None leaves it unchanged."""
    if kept is None:
        return generation
    return replace(generation, response_ids=tuple(generation.response_ids[i] for i in kept))
