"""AttriBoT's leave-one-out as its paper describes it: sentence by sentence, on a cached prefix.

Written from the paper's description, as its code runs on older releases of transformers only. The
same rows give the scores of ARC-JSD: the Jensen-Shannon divergence of the model's distributions
with and without the source, summed over the answer's tokens.
"""

from __future__ import annotations

import copy
import inspect
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache

from benchmarks.peers.runners.runner import Case, Result, run, without

Tensor = torch.Tensor


def attribute(model: Any, tokenizer: Any, case: Case) -> Result:
    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    prompt_ids, answer_ids = ids(case["prompt"]), ids(case["answer"])
    targets = torch.tensor(answer_ids)
    cache = DynamicCache(config=model.config)
    full = log_probabilities(model, prompt_ids, answer_ids, cache)
    scores, divergences = [], []
    for places in case["sources"]:
        ablated_ids = ids(without(case["prompt"], places))
        shared = shared_prefix(prompt_ids, ablated_ids)
        prefix = copy.deepcopy(cache)
        prefix.crop(shared - prefix.get_seq_length())
        ablated = log_probabilities(model, ablated_ids[shared:], answer_ids, prefix)
        scores.append(float((full - ablated).gather(1, targets[:, None]).sum()))
        divergences.append(float(jensen_shannon(full, ablated).sum()))
    return {"scores": scores, "divergences": divergences}


def log_probabilities(
    model: Any, prompt_ids: list[int], answer_ids: list[int], cache: DynamicCache
) -> Tensor:
    """[num_answer_tokens, vocabulary], in nats; the cache holds what comes before."""
    names = inspect.signature(model.forward).parameters
    inputs = {"cache" if "cache" in names else "past_key_values": cache}
    with torch.inference_mode():
        logits = model(torch.tensor([prompt_ids + answer_ids]), **inputs).logits[0]
    return torch.log_softmax(logits[-len(answer_ids) - 1 : -1], -1)


def shared_prefix(full_ids: list[int], ablated_ids: list[int]) -> int:
    """The number of equal tokens at the beginning, less one: a row needs a token of its own."""
    pairs = zip(full_ids, ablated_ids, strict=False)
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return min(equal, len(ablated_ids) - 1)


def jensen_shannon(row: Tensor, other: Tensor) -> Tensor:
    """The divergence of each row, in nats, from log-probabilities."""
    middle = torch.logaddexp(row, other) - torch.log(torch.tensor(2.0))
    parts = [(side.exp() * (side - middle)).sum(-1) for side in (row, other)]
    return (parts[0] + parts[1]) / 2


if __name__ == "__main__":
    run(attribute)
