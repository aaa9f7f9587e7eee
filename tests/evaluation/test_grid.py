"""The methods that are compared, by their options."""

import copy

import torch
from tiny_tokenizers import byte_level

from attribot_rag.evaluation.grid import described, methods
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Hierarchical, Masked


def test_a_method_is_described_with_its_options() -> None:
    assert described(Hierarchical(5)) != described(Hierarchical(3))
    assert "Masked(recompute='question')" in described(Hierarchical(coarse=Masked()))
    proxied = described(methods(byte_level())["proxy pruning, keep 3"])
    assert "parameters" in proxied
    trained = LanguageModel(copy.deepcopy(byte_level().model), byte_level().tokenizer)
    with torch.no_grad():
        next(trained.model.parameters()).add_(0.1)
    assert described(methods(trained)["proxy pruning, keep 3"]) != proxied
    assert "object at" not in proxied
    assert (
        len({described(one) for one in methods(byte_level()).values()})
        == len(methods(byte_level())) - 1
    )  # leave-one-out without a cache is the same method
