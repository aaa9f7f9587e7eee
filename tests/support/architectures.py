"""Tiny randomly initialised models, one for each architecture trait the library has to get right.

Weights are drawn wide, so that attention is sharp and every prompt token matters to the response:
with the usual 0.02 a wrong attention mask would change the scores too little to notice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import (
    BloomForCausalLM,
    CohereForCausalLM,
    FalconForCausalLM,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    GPT2LMHeadModel,
    GPTNeoXForCausalLM,
    GraniteForCausalLM,
    LlamaForCausalLM,
    MambaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    OPTForCausalLM,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
    T5ForConditionalGeneration,
)

VOCABULARY_SIZE = 300
PROMPT_LENGTH = 60


@dataclass(frozen=True)
class Architecture:
    name: str
    build: Callable[[], PreTrainedModel]
    expected: Literal["packed", "cropped", "reference"]
    prompt_length: int = PROMPT_LENGTH


def _architecture(
    name: str,
    expected: Literal["packed", "cropped", "reference"],
    model_class: Any,
    **settings: Any,
) -> Architecture:
    def build() -> PreTrainedModel:
        config = model_class.config_class(
            vocab_size=VOCABULARY_SIZE, pad_token_id=0, bos_token_id=1, eos_token_id=2, **settings
        )
        torch.manual_seed(0)
        model: PreTrainedModel = model_class(config).eval()
        return model

    return Architecture(name, build, expected)


WIDE: dict[str, Any] = {"initializer_range": 0.25}
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
DECODER: dict[str, Any] = {**WIDE, **SIZES, "intermediate_size": 64, "max_position_embeddings": 256}
GROUPED_DECODER = {**DECODER, "num_key_value_heads": 2}
GEMMA = {**GROUPED_DECODER, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 16}

ARCHITECTURES = (
    _architecture("llama", "packed", LlamaForCausalLM, **GROUPED_DECODER),
    _architecture("qwen2", "packed", Qwen2ForCausalLM, **GROUPED_DECODER),
    _architecture("qwen3", "packed", Qwen3ForCausalLM, **GROUPED_DECODER, head_dim=16),
    _architecture(
        "mixtral",
        "packed",
        MixtralForCausalLM,
        **GROUPED_DECODER,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    _architecture("phi3", "packed", Phi3ForCausalLM, **GROUPED_DECODER),
    _architecture(
        "gpt2", "packed", GPT2LMHeadModel, **WIDE, n_embd=32, n_layer=3, n_head=4, n_positions=256
    ),
    _architecture("gpt_neox", "packed", GPTNeoXForCausalLM, **DECODER),
    _architecture(
        "opt",
        "packed",
        OPTForCausalLM,
        **SIZES,
        init_std=0.25,
        ffn_dim=64,
        max_position_embeddings=256,
    ),
    _architecture("mistral", "packed", MistralForCausalLM, **GROUPED_DECODER, sliding_window=None),
    _architecture(
        "mistral_sliding_window",
        "cropped",
        MistralForCausalLM,
        **GROUPED_DECODER,
        sliding_window=16,
    ),
    _architecture(
        "gemma2",
        "cropped",
        Gemma2ForCausalLM,
        **GEMMA,
        attn_logit_softcapping=1.0,
        final_logit_softcapping=2.0,
    ),
    _architecture(
        "gemma3",
        "cropped",
        Gemma3ForCausalLM,
        **GEMMA,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=2.0,
    ),
    _architecture(
        "granite",
        "packed",
        GraniteForCausalLM,
        **GROUPED_DECODER,
        embedding_multiplier=3.0,
        attention_multiplier=0.5,
        residual_multiplier=0.6,
        logits_scaling=0.5,
    ),
    _architecture("cohere", "packed", CohereForCausalLM, **GROUPED_DECODER, logit_scale=0.5),
    _architecture(
        "phi3_longrope",
        "reference",
        Phi3ForCausalLM,
        **GROUPED_DECODER,
        # Just beyond the boundary, so that long removals bring prompt and response below it.
        original_max_position_embeddings=PROMPT_LENGTH - 4,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "short_factor": [1.0, 1.0, 1.0, 1.0],
            "long_factor": [2.0, 5.0, 10.0, 20.0],
        },
    ),
    _architecture(
        "bloom", "cropped", BloomForCausalLM, **WIDE, hidden_size=32, n_layer=3, n_head=4
    ),
    _architecture("falcon", "cropped", FalconForCausalLM, **WIDE, **SIZES),
    _architecture(
        "mamba", "reference", MambaForCausalLM, **WIDE, hidden_size=32, num_hidden_layers=3
    ),
    _architecture(
        "t5",
        "reference",
        T5ForConditionalGeneration,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=3,
        num_heads=4,
        initializer_factor=2.0,
        decoder_start_token_id=0,
    ),
)
