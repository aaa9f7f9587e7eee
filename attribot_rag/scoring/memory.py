"""How much is scored at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.row import Row

_CPU_TOKENS = 4096
_MAX_CUDA_TOKENS = 1 << 16
_MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class MemoryCost:
    """Bytes that a forward pass holds per new token, and per position whose logits are taken."""

    token_bytes: int
    logit_bytes: int

    @classmethod
    def of(cls, model: PreTrainedModel) -> MemoryCost:
        """An estimate: the residual stream, attention and feed-forward states of one layer."""
        config = model.config.get_text_config(decoder=True)
        hidden = int(config.hidden_size)
        inner = max(getattr(config, "intermediate_size", None) or 0, 4 * hidden)
        vocabulary = int(config.vocab_size)
        itemsize = model.dtype.itemsize
        return cls((12 * hidden + 4 * inner) * itemsize, vocabulary * (itemsize + 4))

    def tokens(self, row: Row, implementation: Implementation) -> int:
        """What a row takes of a token budget, its logits counted in tokens."""
        num_logits = len(implementation.generation.response_ids)
        return implementation.num_tokens(row) + num_logits * self.logit_bytes // self.token_bytes


def default_token_budget(model: PreTrainedModel, device: torch.device) -> int:
    """Tokens that fit into half of the free memory of a GPU; elsewhere a fixed number."""
    if device.type != "cuda":
        return _CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    tokens = int(free * _MEMORY_SHARE) // MemoryCost.of(model).token_bytes
    return max(1, min(tokens, _MAX_CUDA_TOKENS))


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has an error of its own; the CPU allocator raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and (
        "not enough memory" in str(error) or "can't allocate memory" in str(error)
    )
