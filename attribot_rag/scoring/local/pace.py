"""What a forward pass takes whatever its tokens, measured on this machine."""

from __future__ import annotations

import time

import torch
from transformers import PreTrainedModel

_FEW, _MANY = 4, 32
_REPEATS = 4
_LEAST_SECONDS = 0.01  # less is waited for by nobody
_LEAST_TOKENS, _MOST_TOKENS = 256, 4096


def pass_tokens(model: PreTrainedModel) -> int:
    """The number of tokens that take as long as what a pass takes whatever its tokens.

    0 if that is little: then tokens are the price of a pass. By passes over few and over many
    tokens in turn, the fastest of each, as other work may slow some down.
    """
    pairs = [(_seconds(model, _FEW), _seconds(model, _MANY)) for _ in range(_REPEATS)]
    few, many = map(min, zip(*pairs, strict=True))
    per_token = max(0.0, many - few) / (_MANY - _FEW)
    fixed = few - _FEW * per_token
    if fixed < max(_LEAST_SECONDS, _LEAST_TOKENS * per_token):
        return 0
    return _MOST_TOKENS if fixed > _MOST_TOKENS * per_token else round(fixed / per_token)


def _seconds(model: PreTrainedModel, count: int) -> float:
    ids = torch.zeros(1, count, dtype=torch.long, device=model.device)
    with torch.no_grad():
        started = time.perf_counter()
        float(model(input_ids=ids, use_cache=False).logits[0, -1, 0])  # waits for the device
        return time.perf_counter() - started
