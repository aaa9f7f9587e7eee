"""What a forward pass takes whatever its tokens, measured on this machine."""

from __future__ import annotations

import math
import time

import torch
from transformers import PreTrainedModel

_FEW, _MANY = 4, 32
_LEAST_REPEATS, _MOST_REPEATS = 2, 4
_LEAST_SECONDS = 0.01  # less is waited for by nobody
_LEAST_TOKENS, _MOST_TOKENS = 256, 4096


def pass_tokens(model: PreTrainedModel) -> int:
    """The number of tokens that take as long as what a pass takes whatever its tokens.

    0 if that is little: then tokens are the price of a pass. By passes over few and over many
    tokens in turn, the fastest of each: other work slows some down, and may hide what tokens take,
    so that a price of passes is looked at again.
    """
    few = many = math.inf
    worth = 0
    for done in range(_MOST_REPEATS):
        if done >= _LEAST_REPEATS and not worth:
            break
        few, many = min(few, _seconds(model, _FEW)), min(many, _seconds(model, _MANY))
        worth = _worth(few, many)
        if model.device.type == "cpu" and not _worth(2 * few, many):
            break  # far from a price; on other devices, the first passes also load kernels
    return worth


def _worth(few: float, many: float) -> int:
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
