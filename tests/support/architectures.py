"""Tiny randomly initialised models, one for each architecture trait the library has to get right.

Weights are drawn wide, so that attention is sharp and every prompt token matters to the response:
with the usual 0.02 a wrong attention mask would change the scores too little to notice.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

Expected = Literal["packed", "cropped", "reference"]

VOCABULARY_SIZE = 300
PROMPT_LENGTH = 60

# By whatever a configuration calls a size: it takes those that it knows.
_SIZES: dict[str, Any] = {
    **{"initializer_range": 0.25, "hidden_size": 32, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    **{"intermediate_size": 64, "max_position_embeddings": 256, "sliding_window": 16},
    # mixtures of experts
    **{"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 32, "n_routed_experts": 4, "n_group": 1, "topk_group": 1},
    **{"n_shared_experts": 1, "shared_expert_intermediate_size": 32, "moe_num_experts": 4},
    **{"moe_k": 2, "moe_layer_start_index": 0, "first_k_dense_replace": 1, "q_lora_rank": 16},
    **{"kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12},
    # older families
    **{"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_inner": 64, "n_ctx": 256},
    **{"rotary_dim": 8, "d_model": 32, "n_heads": 4, "n_layers": 3, "num_layers": 3},
    **{"max_seq_len": 256, "ffn_dim": 64, "init_std": 0.25, "kv_channels": 8, "attention_heads": 4},
    **{"encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 4},
    **{"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
    # recurrent layers
    **{"attention_hidden_size": 32, "attention_window_size": 16, "lru_width": 32, "state_size": 8},
    **{"mamba_d_state": 8, "mamba_dt_rank": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
}


@dataclass(frozen=True)
class Architecture:
    name: str
    build: Callable[[], PreTrainedModel]
    expected: Expected
    prompt_length: int = PROMPT_LENGTH


def build_family(
    family: str, /, auto_class: Any = AutoModelForCausalLM, **settings: Any
) -> PreTrainedModel:
    """The tiny model of a family in transformers; `settings` go before the usual sizes."""
    config_class: Any = CONFIG_MAPPING[family]
    names = {*inspect.signature(config_class.__init__).parameters, *config_class.attribute_map}
    names |= {*getattr(config_class, "__dataclass_fields__", ())}  # none in older releases
    sizes = {name: value for name, value in _SIZES.items() if name in names}
    special = {"vocab_size": VOCABULARY_SIZE, "pad_token_id": 0, "bos_token_id": 1}
    config = config_class(**{**special, "eos_token_id": 2, **sizes, **settings})
    torch.manual_seed(0)
    model: PreTrainedModel = auto_class.from_config(config).eval()
    return model


def _architecture(
    expected: Expected, name: str, family: str | None = None, /, **settings: Any
) -> tuple[Architecture, ...]:
    """None if the family came to transformers after the installed release."""
    family = family or name
    if family not in CONFIG_MAPPING:
        return ()
    return (Architecture(name, partial(build_family, family, **settings), expected),)


_packed, _cropped, _reference = (
    partial(_architecture, expected) for expected in get_args(Expected)
)

_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
_GEMMA = {"query_pre_attn_scalar": 8, "final_logit_softcapping": 2.0}
(MAMBA,) = _reference("mamba", state_size=16)
_OLDER = (
    *_packed("llama"),
    *_packed("qwen2"),
    *_packed("qwen3", head_dim=16),
    *_packed("mixtral", head_dim=None, sliding_window=None),
    *_packed("phi3", sliding_window=None),
    *_packed("gpt2", n_inner=None),
    *_packed("gpt_neox"),
    *_packed("opt"),
    *_packed("mistral", sliding_window=None),
    *_packed("mistral_sliding_window", "mistral"),
    *_packed(
        "gemma2",
        **_GEMMA,
        attn_logit_softcapping=1.0,
        attn_implementation="eager",  # older releases' own choice forgets the soft cap
    ),
    *_packed("gemma3", "gemma3_text", **_GEMMA, layer_types=_LAYERS),
    *_packed(
        "granite",
        embedding_multiplier=3.0,
        attention_multiplier=0.5,
        residual_multiplier=0.6,
        logits_scaling=0.5,
    ),
    *_packed("cohere", logit_scale=0.5),
    *_reference(
        "phi3_longrope",
        "phi3",
        sliding_window=None,
        # Just beyond the boundary, so that long removals bring prompt and response below it.
        original_max_position_embeddings=PROMPT_LENGTH - 4,
        rope_parameters={
            **{"rope_type": "longrope", "rope_theta": 10_000.0, "factor": 4.0},
            **{"short_factor": [1.0, 1.0, 1.0, 1.0], "long_factor": [2.0, 5.0, 10.0, 20.0]},
        },
    ),
    *_cropped("bloom"),
    *_cropped("falcon", max_position_embeddings=2048),
    MAMBA,
)

_SHARED_KEYS = {
    **{"num_hidden_layers": 6, "num_kv_shared_layers": 2},
    **{"vocab_size_per_layer_input": VOCABULARY_SIZE, "hidden_size_per_layer_input": 8},
    **{"layer_types": ["sliding_attention", "full_attention"] * 3},
}
WITH_WINDOWS = (
    *_packed("phimoe"),
    *_packed("gpt_oss"),
    *_packed("cohere2", logit_scale=0.5),
    *_packed("olmo3"),
    *_packed("exaone4", sliding_window_pattern=2),
    *_packed("ministral"),
    *_packed("qwen2_window", "qwen2", use_sliding_window=True, max_window_layers=1),
    *_packed(
        "llama4",
        "llama4_text",
        **{"attention_chunk_size": 16, "num_local_experts": 2, "num_experts_per_tok": 1},
        **{"intermediate_size_mlp": 64, "no_rope_layers": [1, 0, 1]},
    ),
    *_packed(
        "gemma3n",
        "gemma3n_text",
        **{**_SHARED_KEYS, "intermediate_size": [64] * 6, "laurel_rank": 4},
        **{"altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 6},
    ),
    *_packed(
        "gemma4",
        "gemma4_text",
        **_SHARED_KEYS,
        **{"global_head_dim": 16, "num_experts": None, "moe_intermediate_size": None},
    ),
    *_packed("smollm3", sliding_window=None, no_rope_layers=[1, 0, 1]),
)

_LATENT = {"num_key_value_heads": 4, "n_group": 2}
_WITH_LATENT_KEYS = (
    *_packed("deepseek_v2", **_LATENT, first_k_dense_replace=0),
    *_packed("deepseek_v3", **_LATENT, first_k_dense_replace=3),
    *_packed("glm4_moe_lite", **_LATENT),
    *_packed("minicpm3", num_key_value_heads=4),
)

_DELTA_RULE = {
    **{"num_hidden_layers": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
}
_MAMBA2 = {
    **{"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8},
    **{"mamba_chunk_size": 16},
}
WITH_STATES = (
    *_reference("qwen3_next", **_DELTA_RULE),
    *_reference("qwen3_5", "qwen3_5_text", **_DELTA_RULE),
    *_reference("bamba", **_MAMBA2, num_hidden_layers=4, attn_layer_indices=[1, 3]),
    *_reference(
        "zamba2",
        **{"num_hidden_layers": 4, "num_key_value_heads": 4, "n_mamba_heads": 8},
        **{"mamba_headdim": 8, "mamba_ngroups": 1, "num_mem_blocks": 1, "chunk_size": 16},
        **{"attention_head_dim": 16, "hybrid_layer_ids": [1, 3]},
        **{"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
    ),
    *_reference(
        "zamba",
        **{"num_hidden_layers": 5, "num_key_value_heads": 4, "n_mamba_heads": 2},
        **{"head_dim": 16, "attention_hidden_size": 64},
    ),
    *_reference(
        "granitemoehybrid",
        **_MAMBA2,
        **{"num_hidden_layers": 4, "layer_types": ["mamba", "attention"] * 2},
        **{"shared_intermediate_size": 32, "num_local_experts": 0},
    ),
    *_reference("falcon_h1", **_MAMBA2, mamba_d_ssm=64),
    *_reference("lfm2", layer_types=["conv", "full_attention", "conv"]),
    *_reference(
        "nemotron_h",
        **{"num_hidden_layers": 4, "mamba_num_heads": 8, "mamba_head_dim": 8},
        **{"n_groups": 1, "ssm_state_size": 8, "chunk_size": 16, "sliding_window": None},
        **{"layers_block_type": ["mamba", "attention", "mlp", "mamba"]},
    ),
    *_reference("mamba2", num_heads=8, n_groups=1, chunk_size=16),
)

ARCHITECTURES = (*_OLDER, *WITH_WINDOWS, *_WITH_LATENT_KEYS, *WITH_STATES)
