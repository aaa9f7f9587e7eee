"""A small model made as large as an 8B model by zeros: the same answers, at its price."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import LocalModel

_WIDTH, _INNER, _LAYERS, _HEADS = 4096, 14336, 32, 64


def padded(local: LocalModel) -> LocalModel:
    """The Llama-shaped model with the width, layers and heads of an 8B one, on its device.

    Weights beyond the small model's are zero, so that all log-probabilities stay what they were.
    Heads keep their size and their number for each key-value head.
    """
    small = local.model
    config = LlamaConfig(**small.config.to_dict())
    group = config.num_attention_heads // (config.num_key_value_heads or 1)
    # a norm divides by the mean square, to which zeros add nothing
    shrink = config.hidden_size / _WIDTH
    config.update(
        {
            "head_dim": config.hidden_size // config.num_attention_heads,
            "hidden_size": _WIDTH,
            "intermediate_size": _INNER,
            "num_hidden_layers": _LAYERS,
            "num_attention_heads": _HEADS // group * group,
            "num_key_value_heads": _HEADS // group,
            "rms_norm_eps": config.rms_norm_eps * shrink,
        }
    )
    config._attn_implementation = small.config._attn_implementation
    with small.device:
        large = LlamaForCausalLM(config)
    torch.nn.Module.to(large, local.dtype)
    large.train(False)
    weights = dict(small.named_parameters())
    with torch.no_grad():
        for name, parameter in large.named_parameters():
            parameter.zero_()
            if name in weights:
                weight = weights[name] * (shrink**0.5 if "norm" in name else 1)
                parameter[tuple(map(slice, weight.shape))] = weight
    large.generation_config = small.generation_config
    return LocalModel(large, local.tokenizer)
