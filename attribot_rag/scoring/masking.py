"""Which tokens masked ablation encodes again."""

from __future__ import annotations

from typing import Literal, get_args

from attribot_rag.context import Ablation, Context
from attribot_rag.errors import InvalidInput
from attribot_rag.generation import Generation
from attribot_rag.scoring.row import Row

Reencoded = Literal["response", "question", "document", "rest"]


def check_recompute(recompute: str) -> None:
    """Raises InvalidInput unless it names tokens that masked ablation can encode again."""
    if recompute not in get_args(Reencoded):
        raise InvalidInput(
            f"recompute={recompute!r}; choose one of {', '.join(get_args(Reencoded))}"
        )


def masked_row(
    context: Context, generation: Generation, ablation: Ablation, recompute: Reencoded
) -> Row:
    """A row that hides the ablated tokens from the tokens that are encoded again.

    These are the 'response'; for 'question' also all tokens after the documents; for 'document'
    also the tokens after the ablated sources within their documents; for 'rest' all tokens after
    the first ablated token. Raises InvalidInput for another value.
    """
    check_recompute(recompute)
    hidden = context.hidden_tokens(ablation)
    recomputed: list[int] = []
    if recompute == "document":
        recomputed += context.following_tokens(ablation)
    if recompute == "rest":
        recomputed += range(min(hidden, default=context.end), context.end)
    if recompute != "response":
        recomputed += range(context.end, len(generation.prompt_ids))
    return Row.masked(generation, hidden, recomputed)
