"""Tiny random models of many more families, by whatever their configurations call a size."""

import dataclasses
import inspect
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, Cache, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from support.architectures import GROUPED_DECODER, VOCABULARY_SIZE, Architecture, Expected

_SIZES: dict[str, Any] = {
    **GROUPED_DECODER,
    "head_dim": 8,
    "sliding_window": 16,
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


def build_family(family: str, **options: Any) -> PreTrainedModel:
    config_class: Any = CONFIG_MAPPING[family]
    known = set(inspect.signature(config_class.__init__).parameters)
    known |= {field.name for field in dataclasses.fields(config_class)}
    known |= set(config_class.attribute_map)
    sizes = {name: value for name, value in _SIZES.items() if name in known}
    config = config_class(
        vocab_size=VOCABULARY_SIZE,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **sizes,
        **options,
    )
    torch.manual_seed(0)
    model: Any = cast(Any, AutoModelForCausalLM).from_config(config)
    evaluated: PreTrainedModel = model.eval()
    return evaluated


_PACKED = (
    "afmoe apertus arcee bitnet cwm dots1 ernie4_5 ernie4_5_moe exaone_moe flex_olmo gemma glm "
    "glm4 glm4_moe gpt_bigcode granitemoe helium hunyuan_v1_dense hunyuan_v1_moe mimo_v2_flash "
    "minimax_m2 ministral3 modernbert-decoder nemotron olmo olmo2 olmoe persimmon phi qwen2_moe "
    "qwen3_moe seed_oss starcoder2 vaultgemma"
)
_CROPPED = "bart biogpt codegen gptj jetmoe mpt stablelm xglm"
_RECURRENT = "falcon_mamba jamba minimax rwkv"

# The newest transformers for Python 3.10 (5.20) makes a mask of the wrong width where it goes on.
RECURRENT_GEMMA_GOES_ON = hasattr(Cache, "get_recurrent_state")


def _families(names: str, expected: Expected) -> tuple[Architecture, ...]:
    return tuple(
        Architecture(name, lambda name=name: build_family(name), expected)  # type: ignore[misc]
        for name in names.split()
        if name in CONFIG_MAPPING
    )


RECURRENT_GEMMA = _families(
    "recurrent_gemma", "cropped" if RECURRENT_GEMMA_GOES_ON else "reference"
)
RECURRENT_FAMILIES = (
    *_families(_RECURRENT, "cropped"),
    *(RECURRENT_GEMMA if RECURRENT_GEMMA_GOES_ON else ()),
)
FAMILIES = (
    *_families(_PACKED, "packed"),
    *_families(_CROPPED + " " + _RECURRENT, "cropped"),
    *RECURRENT_GEMMA,
)
NOT_MASKED = frozenset({"bart", "mpt", "recurrent_gemma", *_RECURRENT.split()})
