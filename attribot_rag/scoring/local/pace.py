"""What a forward pass takes whatever its tokens, measured on this machine."""

from __future__ import annotations

import time

import torch
from transformers import PreTrainedModel

_FEW, _MANY = 4, 64
_REPEATS = 3
_LEAST_SECONDS = 5e-3  # a pass that takes less is waited for by nobody
_LEAST_TOKENS = 256
_MOST_TOKENS = 4096


def pass_tokens(twin: PreTrainedModel) -> int:
    """The number of tokens that take as long as what a pass takes whatever its tokens.

    0 if that is little: then tokens are the price of a pass. By the best of a few passes over few
    and over many tokens.
    """
    few, many = _seconds(twin, _FEW), _seconds(twin, _MANY)
    per_token = max(0.0, many - few) / (_MANY - _FEW)
    fixed = few - _FEW * per_token
    if fixed < max(_LEAST_SECONDS, _LEAST_TOKENS * per_token):
        return 0
    return min(_MOST_TOKENS, int(fixed / max(per_token, 1e-9)))


def _seconds(twin: PreTrainedModel, count: int) -> float:
    ids = torch.zeros(1, count, dtype=torch.long, device=twin.device)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(_REPEATS):
            started = time.perf_counter()
            float(twin(input_ids=ids, use_cache=False).logits[0, -1, 0])  # waits for the device
            best = min(best, time.perf_counter() - started)
    return best
