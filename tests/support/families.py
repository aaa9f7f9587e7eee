"""Tiny random models of many more families, which differ in nothing but their sizes."""

from functools import partial

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from support.architectures import Architecture, Expected
from support.architectures import build_family as build_family

_PACKED = (
    "afmoe apertus arcee bitnet cwm dots1 ernie4_5 ernie4_5_moe exaone_moe flex_olmo gemma glm "
    "glm4 glm4_moe gpt_bigcode granitemoe helium hunyuan_v1_dense hunyuan_v1_moe mimo_v2_flash "
    "minimax_m2 ministral3 modernbert-decoder nemotron olmo olmo2 olmoe persimmon phi qwen2_moe "
    "qwen3_moe seed_oss starcoder2 vaultgemma"
)
_CROPPED = "bart biogpt codegen gptj jetmoe mpt stablelm xglm"
_RECURRENT = "falcon_mamba jamba minimax recurrent_gemma"


def _families(names: str, expected: Expected) -> tuple[Architecture, ...]:
    return tuple(
        Architecture(name, partial(build_family, name), expected)
        for name in names.split()
        if name in CONFIG_MAPPING
    )


FAMILIES = (
    *_families(_PACKED, "packed"),
    *_families(_CROPPED, "cropped"),
    *_families(_RECURRENT, "reference"),
)
NOT_MASKED = frozenset({"bart", "mpt", *_RECURRENT.split()})
