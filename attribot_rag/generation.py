"""A generation as it happened: the ids that the model saw, the ids that it gave, its KV cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from attribot_rag.errors import InvalidInput


class LayerCache(NamedTuple):
    """Keys and values of an attention layer: [1, num_key_value_heads, positions, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def num_positions(self) -> int:
        return self.keys.shape[-2]


PromptCache = tuple[LayerCache, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Generation:
    """A prompt and the response that a model gave to it, in token ids.

    `response_ids` hold neither the end-of-sequence token nor tokens after it. `cache`, if not
    None, covers at least all tokens of the prompt but the last. `retokenized` says that the ids
    were made from text afterwards and may differ from the ids that the model saw or gave. Raises
    InvalidInput for an empty prompt or response.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    cache: PromptCache | None = None
    retokenized: bool = False

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise InvalidInput("the prompt has no tokens; pass what the model was given")
        if not self.response_ids:
            raise InvalidInput("the response has no tokens, so there is nothing to attribute")

    def __repr__(self) -> str:
        return (
            f"Generation({len(self.prompt_ids)} prompt tokens, {len(self.response_ids)} response "
            f"tokens, {'not cached' if self.cache is None else 'cached'}, "
            f"{'retokenized' if self.retokenized else 'not retokenized'})"
        )

    def without_cache(self) -> Generation:
        return replace(self, cache=None)

    def truncated(self, num_response_tokens: int) -> Generation:
        """The same generation with only the first tokens of its response."""
        return replace(self, response_ids=self.response_ids[:num_response_tokens])

    @property
    def cache_bytes(self) -> int:
        """Bytes of memory that the cache keeps alive."""
        layers = self.cache or ()
        return sum(tensor.untyped_storage().nbytes() for layer in layers for tensor in layer)
