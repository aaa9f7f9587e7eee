"""FlashTrace (flashtrace): a score for each token of the prompt, summed over each source."""

from __future__ import annotations

from typing import Any

from flashtrace import FlashTrace

from benchmarks.peers.runners.runner import Case, Result, run, summed


def attribute(model: Any, tokenizer: Any, case: Case) -> Result:
    # The prompt has its chat template already: FlashTrace's own adds words to it.
    trace = FlashTrace(model, tokenizer).trace(prompt=case["prompt"], target=case["answer"])
    encoded = tokenizer(case["prompt"], add_special_tokens=False, return_offsets_mapping=True)
    if len(encoded["offset_mapping"]) != len(trace.scores):
        raise ValueError("FlashTrace's tokens are not those of the prompt")
    return {"scores": summed(trace.scores, encoded["offset_mapping"], case["sources"])}


if __name__ == "__main__":
    run(attribute, attn_implementation="eager")  # the weights of others are not given
