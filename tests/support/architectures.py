"""Tiny randomly initialised models, one for each architecture trait the library has to get right.

Weights are drawn wide, so that attention is sharp and every prompt token matters to the response:
with the usual 0.02 a wrong attention mask would change the scores too little to notice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

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


def _architecture(name: str, expected: Expected, class_name: str, **settings: Any) -> Architecture:
    def build() -> PreTrainedModel:
        model_class: Any = getattr(transformers, class_name)
        config = model_class.config_class(
            vocab_size=VOCABULARY_SIZE, pad_token_id=0, bos_token_id=1, eos_token_id=2, **settings
        )
        torch.manual_seed(0)
        model: PreTrainedModel = model_class(config).eval()
        return model

    return Architecture(name, build, expected, available=hasattr(transformers, class_name))


def _available(*architectures: Architecture) -> tuple[Architecture, ...]:
    """Without those that came to transformers after the installed release."""
    return tuple(architecture for architecture in architectures if architecture.available)


WIDE: dict[str, Any] = {"initializer_range": 0.25}
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
DECODER: dict[str, Any] = {**WIDE, **SIZES, "intermediate_size": 64, "max_position_embeddings": 256}
GROUPED_DECODER = {**DECODER, "num_key_value_heads": 2}
GEMMA = {**GROUPED_DECODER, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 16}

MAMBA = _architecture(
    "mamba", "cropped", "MambaForCausalLM", **WIDE, hidden_size=32, num_hidden_layers=3
)
_OLDER = _available(
    _architecture("llama", "packed", "LlamaForCausalLM", **GROUPED_DECODER),
    _architecture("qwen2", "packed", "Qwen2ForCausalLM", **GROUPED_DECODER),
    _architecture("qwen3", "packed", "Qwen3ForCausalLM", **GROUPED_DECODER, head_dim=16),
    _architecture(
        "mixtral",
        "packed",
        "MixtralForCausalLM",
        **GROUPED_DECODER,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    _architecture("phi3", "packed", "Phi3ForCausalLM", **GROUPED_DECODER),
    _architecture(
        "gpt2", "packed", "GPT2LMHeadModel", **WIDE, n_embd=32, n_layer=3, n_head=4, n_positions=256
    ),
    _architecture("gpt_neox", "packed", "GPTNeoXForCausalLM", **DECODER),
    _architecture(
        "opt",
        "packed",
        "OPTForCausalLM",
        **SIZES,
        init_std=0.25,
        ffn_dim=64,
        max_position_embeddings=256,
    ),
    _architecture(
        "mistral", "packed", "MistralForCausalLM", **GROUPED_DECODER, sliding_window=None
    ),
    _architecture(
        "mistral_sliding_window",
        "packed",
        "MistralForCausalLM",
        **GROUPED_DECODER,
        sliding_window=16,
    ),
    _architecture(
        "gemma2",
        "packed",
        "Gemma2ForCausalLM",
        **GEMMA,
        attn_logit_softcapping=1.0,
        final_logit_softcapping=2.0,
        attn_implementation="eager",  # older releases' own choice forgets the soft cap
    ),
    _architecture(
        "gemma3",
        "packed",
        "Gemma3ForCausalLM",
        **GEMMA,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=2.0,
    ),
    _architecture(
        "granite",
        "packed",
        "GraniteForCausalLM",
        **GROUPED_DECODER,
        embedding_multiplier=3.0,
        attention_multiplier=0.5,
        residual_multiplier=0.6,
        logits_scaling=0.5,
    ),
    _architecture("cohere", "packed", "CohereForCausalLM", **GROUPED_DECODER, logit_scale=0.5),
    _architecture(
        "phi3_longrope",
        "reference",
        "Phi3ForCausalLM",
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
        "bloom", "cropped", "BloomForCausalLM", **WIDE, hidden_size=32, n_layer=3, n_head=4
    ),
    _architecture("falcon", "cropped", "FalconForCausalLM", **WIDE, **SIZES),
    MAMBA,
    _architecture(
        "t5",
        "reference",
        "T5ForConditionalGeneration",
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=3,
        num_heads=4,
        initializer_factor=2.0,
        decoder_start_token_id=0,
    ),
)

_WINDOW = {**GROUPED_DECODER, "sliding_window": 16}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {
    **DECODER,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
_LATENT_EXPERTS = {
    **_LATENT,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
}
_SHARED_KEYS = {
    **GROUPED_DECODER,
    "num_hidden_layers": 6,
    "head_dim": 8,
    "sliding_window": 16,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": VOCABULARY_SIZE,
    "hidden_size_per_layer_input": 8,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}
_FOUR_LAYERS = {**GROUPED_DECODER, "num_hidden_layers": 4}
_DELTA_RULE = {
    **_FOUR_LAYERS,
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_chunk_size": 16,
}

WITH_WINDOWS = _available(
    _architecture("phimoe", "packed", "PhimoeForCausalLM", **_WINDOW, **_EXPERTS),
    _architecture("gpt_oss", "packed", "GptOssForCausalLM", **_WINDOW, **_EXPERTS, head_dim=8),
    _architecture("cohere2", "packed", "Cohere2ForCausalLM", **_WINDOW, logit_scale=0.5),
    _architecture("olmo3", "packed", "Olmo3ForCausalLM", **_WINDOW),
    _architecture("exaone4", "packed", "Exaone4ForCausalLM", **_WINDOW, sliding_window_pattern=2),
    _architecture("ministral", "packed", "MinistralForCausalLM", **_WINDOW, head_dim=8),
    _architecture(
        "qwen2_window",
        "packed",
        "Qwen2ForCausalLM",
        **_WINDOW,
        use_sliding_window=True,
        max_window_layers=1,
    ),
    _architecture(
        "llama4",
        "packed",
        "Llama4ForCausalLM",
        **GROUPED_DECODER,
        head_dim=8,
        attention_chunk_size=16,
        num_local_experts=2,
        intermediate_size_mlp=64,
        no_rope_layers=[1, 0, 1],
    ),
    _architecture(
        "gemma3n",
        "packed",
        "Gemma3nForCausalLM",
        **{**_SHARED_KEYS, "intermediate_size": [64] * 6},
        laurel_rank=4,
        altup_num_inputs=2,
        activation_sparsity_pattern=[0.0] * 6,
    ),
    _architecture("gemma4", "packed", "Gemma4ForCausalLM", **_SHARED_KEYS, global_head_dim=16),
    _architecture(
        "smollm3", "packed", "SmolLM3ForCausalLM", **GROUPED_DECODER, no_rope_layers=[1, 0, 1]
    ),
)

_WITH_LATENT_KEYS = _available(
    _architecture("deepseek_v2", "packed", "DeepseekV2ForCausalLM", **_LATENT_EXPERTS),
    _architecture("deepseek_v3", "packed", "DeepseekV3ForCausalLM", **_LATENT_EXPERTS),
    _architecture("glm4_moe_lite", "packed", "Glm4MoeLiteForCausalLM", **_LATENT_EXPERTS),
    _architecture("minicpm3", "packed", "MiniCPM3ForCausalLM", **_LATENT),
)

WITH_STATES = _available(
    _architecture(
        "qwen3_next",
        "cropped",
        "Qwen3NextForCausalLM",
        **_DELTA_RULE,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    ),
    _architecture("qwen3_5", "cropped", "Qwen3_5ForCausalLM", **_DELTA_RULE),
    _architecture(
        "bamba", "cropped", "BambaForCausalLM", **_FOUR_LAYERS, **_MAMBA2, attn_layer_indices=[1, 3]
    ),
    _architecture(
        "zamba2",
        "cropped",
        "Zamba2ForCausalLM",
        **{**_FOUR_LAYERS, "num_key_value_heads": 4},
        mamba_d_state=8,
        n_mamba_heads=8,
        mamba_headdim=8,
        mamba_ngroups=1,
        num_mem_blocks=1,
        hybrid_layer_ids=[1, 3],
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        chunk_size=16,
    ),
    _architecture(
        "zamba",
        "cropped",
        "ZambaForCausalLM",
        **{**_FOUR_LAYERS, "num_hidden_layers": 5, "num_key_value_heads": 4},
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_d_state=8,
        mamba_dt_rank=4,
        n_mamba_heads=2,
    ),
    _architecture(
        "granitemoehybrid",
        "cropped",
        "GraniteMoeHybridForCausalLM",
        **_FOUR_LAYERS,
        **_MAMBA2,
        layer_types=["mamba", "attention", "mamba", "attention"],
        shared_intermediate_size=32,
        num_local_experts=0,
    ),
    _architecture(
        "falcon_h1", "cropped", "FalconH1ForCausalLM", **GROUPED_DECODER, **_MAMBA2, mamba_d_ssm=64
    ),
    _architecture(
        "lfm2",
        "cropped",
        "Lfm2ForCausalLM",
        **GROUPED_DECODER,
        layer_types=["conv", "full_attention", "conv"],
    ),
    _architecture(
        "nemotron_h",
        "cropped",
        "NemotronHForCausalLM",
        **_FOUR_LAYERS,
        layers_block_type=["mamba", "attention", "mlp", "mamba"],
        mamba_num_heads=8,
        mamba_head_dim=8,
        n_groups=1,
        ssm_state_size=8,
        chunk_size=16,
        head_dim=8,
    ),
    _architecture(
        "mamba2",
        "cropped",
        "Mamba2ForCausalLM",
        **WIDE,
        hidden_size=32,
        num_hidden_layers=3,
        num_heads=8,
        head_dim=8,
        state_size=8,
        n_groups=1,
        chunk_size=16,
    ),
)

ARCHITECTURES = (*_OLDER, *WITH_WINDOWS, *_WITH_LATENT_KEYS, *WITH_STATES)
