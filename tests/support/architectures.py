"""Tiny randomly initialised models, one for each architecture trait the library has to get right.

Weights are drawn wide, so that attention is sharp and every prompt token matters to the response:
with the usual 0.02 a wrong attention mask would change the scores too little to notice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
import transformers
from transformers import PreTrainedModel

Expected = Literal["packed", "cropped", "reference"]

VOCABULARY_SIZE = 300
PROMPT_LENGTH = 60


@dataclass(frozen=True)
class Architecture:
    name: str
    build: Callable[[], PreTrainedModel]
    expected: Expected
    prompt_length: int = PROMPT_LENGTH
    available: bool = True


def _architecture(expected: Expected, name: str, class_name: str, **settings: Any) -> Architecture:
    def build() -> PreTrainedModel:
        model_class: Any = getattr(transformers, class_name)
        config = model_class.config_class(
            vocab_size=VOCABULARY_SIZE, pad_token_id=0, bos_token_id=1, eos_token_id=2, **settings
        )
        torch.manual_seed(0)
        model: PreTrainedModel = model_class(config).eval()
        return model

    return Architecture(name, build, expected, available=hasattr(transformers, class_name))


_packed, _cropped, _reference = (
    partial(_architecture, expected) for expected in get_args(Expected)
)


def _available(*architectures: Architecture) -> tuple[Architecture, ...]:
    """Without those that came to transformers after the installed release."""
    return tuple(architecture for architecture in architectures if architecture.available)


WIDE: dict[str, Any] = {"initializer_range": 0.25}
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
DECODER: dict[str, Any] = {**WIDE, **SIZES, "intermediate_size": 64, "max_position_embeddings": 256}
GROUPED_DECODER = {**DECODER, "num_key_value_heads": 2}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
GEMMA = {**GROUPED_DECODER, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 16}

MAMBA = _cropped("mamba", "MambaForCausalLM", **WIDE, hidden_size=32, num_hidden_layers=3)
_OLDER = _available(
    _packed("llama", "LlamaForCausalLM", **GROUPED_DECODER),
    _packed("qwen2", "Qwen2ForCausalLM", **GROUPED_DECODER),
    _packed("qwen3", "Qwen3ForCausalLM", **GROUPED_DECODER, head_dim=16),
    _packed("mixtral", "MixtralForCausalLM", **GROUPED_DECODER, **_EXPERTS),
    _packed("phi3", "Phi3ForCausalLM", **GROUPED_DECODER),
    _packed("gpt2", "GPT2LMHeadModel", **WIDE, n_embd=32, n_layer=3, n_head=4, n_positions=256),
    _packed("gpt_neox", "GPTNeoXForCausalLM", **DECODER),
    _packed(
        "opt",
        "OPTForCausalLM",
        **SIZES,
        **{"init_std": 0.25, "ffn_dim": 64, "max_position_embeddings": 256},
    ),
    _packed("mistral", "MistralForCausalLM", **GROUPED_DECODER, sliding_window=None),
    _packed("mistral_sliding_window", "MistralForCausalLM", **GROUPED_DECODER, sliding_window=16),
    _packed(
        "gemma2",
        "Gemma2ForCausalLM",
        **GEMMA,
        attn_logit_softcapping=1.0,
        final_logit_softcapping=2.0,
        attn_implementation="eager",  # older releases' own choice forgets the soft cap
    ),
    _packed(
        "gemma3",
        "Gemma3ForCausalLM",
        **GEMMA,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=2.0,
    ),
    _packed(
        "granite",
        "GraniteForCausalLM",
        **GROUPED_DECODER,
        **{"embedding_multiplier": 3.0, "attention_multiplier": 0.5, "residual_multiplier": 0.6},
        **{"logits_scaling": 0.5},
    ),
    _packed("cohere", "CohereForCausalLM", **GROUPED_DECODER, logit_scale=0.5),
    _reference(
        "phi3_longrope",
        "Phi3ForCausalLM",
        **GROUPED_DECODER,
        # Just beyond the boundary, so that long removals bring prompt and response below it.
        original_max_position_embeddings=PROMPT_LENGTH - 4,
        rope_parameters={
            **{"rope_type": "longrope", "rope_theta": 10_000.0, "factor": 4.0},
            **{"short_factor": [1.0, 1.0, 1.0, 1.0], "long_factor": [2.0, 5.0, 10.0, 20.0]},
        },
    ),
    _cropped("bloom", "BloomForCausalLM", **WIDE, hidden_size=32, n_layer=3, n_head=4),
    _cropped("falcon", "FalconForCausalLM", **WIDE, **SIZES),
    MAMBA,
    _reference(
        "t5",
        "T5ForConditionalGeneration",
        **{"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 3, "num_heads": 4},
        **{"initializer_factor": 2.0, "decoder_start_token_id": 0},
    ),
)

_WINDOW = {**GROUPED_DECODER, "sliding_window": 16}
_LATENT = {
    **DECODER,
    **{"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8},
    **{"qk_nope_head_dim": 16, "v_head_dim": 12},
}
_LATENT_EXPERTS = {
    **_LATENT,
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1},
    **{"moe_intermediate_size": 32, "n_shared_experts": 1},
}
_SHARED_KEYS = {
    **GROUPED_DECODER,
    **{"num_hidden_layers": 6, "head_dim": 8, "sliding_window": 16, "num_kv_shared_layers": 2},
    **{"vocab_size_per_layer_input": VOCABULARY_SIZE, "hidden_size_per_layer_input": 8},
    **{"layer_types": ["sliding_attention", "full_attention"] * 3},
}
_FOUR_LAYERS = {**GROUPED_DECODER, "num_hidden_layers": 4}
_DELTA_RULE = {
    **_FOUR_LAYERS,
    **{"head_dim": 8, "linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
}
_MAMBA2 = {
    **{"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8},
    **{"mamba_chunk_size": 16},
}

WITH_WINDOWS = _available(
    _packed("phimoe", "PhimoeForCausalLM", **_WINDOW, **_EXPERTS),
    _packed("gpt_oss", "GptOssForCausalLM", **_WINDOW, **_EXPERTS, head_dim=8),
    _packed("cohere2", "Cohere2ForCausalLM", **_WINDOW, logit_scale=0.5),
    _packed("olmo3", "Olmo3ForCausalLM", **_WINDOW),
    _packed("exaone4", "Exaone4ForCausalLM", **_WINDOW, sliding_window_pattern=2),
    _packed("ministral", "MinistralForCausalLM", **_WINDOW, head_dim=8),
    _packed(
        "qwen2_window", "Qwen2ForCausalLM", **_WINDOW, use_sliding_window=True, max_window_layers=1
    ),
    _packed(
        "llama4",
        "Llama4ForCausalLM",
        **GROUPED_DECODER,
        **{"head_dim": 8, "attention_chunk_size": 16, "num_local_experts": 2},
        **{"intermediate_size_mlp": 64, "no_rope_layers": [1, 0, 1]},
    ),
    _packed(
        "gemma3n",
        "Gemma3nForCausalLM",
        **{**_SHARED_KEYS, "intermediate_size": [64] * 6},
        **{"laurel_rank": 4, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 6},
    ),
    _packed("gemma4", "Gemma4ForCausalLM", **_SHARED_KEYS, global_head_dim=16),
    _packed("smollm3", "SmolLM3ForCausalLM", **GROUPED_DECODER, no_rope_layers=[1, 0, 1]),
)

_WITH_LATENT_KEYS = _available(
    _packed("deepseek_v2", "DeepseekV2ForCausalLM", **_LATENT_EXPERTS),
    _packed("deepseek_v3", "DeepseekV3ForCausalLM", **_LATENT_EXPERTS),
    _packed("glm4_moe_lite", "Glm4MoeLiteForCausalLM", **_LATENT_EXPERTS),
    _packed("minicpm3", "MiniCPM3ForCausalLM", **_LATENT),
)

WITH_STATES = _available(
    _cropped(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        **_DELTA_RULE,
        **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
        **{"shared_expert_intermediate_size": 32},
    ),
    _cropped("qwen3_5", "Qwen3_5ForCausalLM", **_DELTA_RULE),
    _cropped("bamba", "BambaForCausalLM", **_FOUR_LAYERS, **_MAMBA2, attn_layer_indices=[1, 3]),
    _cropped(
        "zamba2",
        "Zamba2ForCausalLM",
        **{**_FOUR_LAYERS, "num_key_value_heads": 4},
        **{"mamba_d_state": 8, "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1},
        **{"num_mem_blocks": 1, "hybrid_layer_ids": [1, 3]},
        **{"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "chunk_size": 16},
    ),
    _cropped(
        "zamba",
        "ZambaForCausalLM",
        **{**_FOUR_LAYERS, "num_hidden_layers": 5, "num_key_value_heads": 4},
        **{"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4},
        **{"n_mamba_heads": 2},
    ),
    _cropped(
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        **_FOUR_LAYERS,
        **_MAMBA2,
        layer_types=["mamba", "attention", "mamba", "attention"],
        shared_intermediate_size=32,
        num_local_experts=0,
    ),
    _cropped("falcon_h1", "FalconH1ForCausalLM", **GROUPED_DECODER, **_MAMBA2, mamba_d_ssm=64),
    _cropped(
        "lfm2", "Lfm2ForCausalLM", **GROUPED_DECODER, layer_types=["conv", "full_attention", "conv"]
    ),
    _cropped(
        "nemotron_h",
        "NemotronHForCausalLM",
        **_FOUR_LAYERS,
        **{"layers_block_type": ["mamba", "attention", "mlp", "mamba"], "mamba_num_heads": 8},
        **{"mamba_head_dim": 8, "n_groups": 1, "ssm_state_size": 8, "chunk_size": 16},
        **{"head_dim": 8},
    ),
    _cropped(
        "mamba2",
        "Mamba2ForCausalLM",
        **WIDE,
        **{"hidden_size": 32, "num_hidden_layers": 3, "num_heads": 8, "head_dim": 8},
        **{"state_size": 8, "n_groups": 1, "chunk_size": 16},
    ),
)

ARCHITECTURES = (*_OLDER, *WITH_WINDOWS, *_WITH_LATENT_KEYS, *WITH_STATES)
