"""Tiny random models that see images, with the inputs that a processor makes of an image."""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import torch
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SiglipVisionConfig,
)

from support.tiny_models import byte_tokenizer

IMAGE = 259  # the id of an image's tokens

Segment = str | None  # None is an image


@cache
def tokenizer() -> PreTrainedTokenizerBase:
    bytes_and_image = byte_tokenizer()
    bytes_and_image.add_special_tokens({"additional_special_tokens": ["<image>"]})
    return bytes_and_image


def ids_of(segments: Sequence[Segment]) -> list[int]:
    text = "".join("<image>" * 4 if segment is None else segment for segment in segments)
    return list(tokenizer()(text, add_special_tokens=False).input_ids)


TEXT: dict[str, Any] = {
    **{"vocab_size": 300, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2},
    **{"bos_token_id": 1, "eos_token_id": None},
}


VISION: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "image_size": 30, "patch_size": 15},
}


@cache
def llava() -> Any:
    torch.manual_seed(0)
    vision = CLIPVisionConfig(**VISION, initializer_range=0.2)
    config = LlavaConfig(
        vision_config=vision, text_config=LlamaConfig(**TEXT), image_token_index=IMAGE
    )
    return cast(Any, LlavaForConditionalGeneration(config)).eval()


@cache
def qwen2_5_vl() -> Any:
    torch.manual_seed(0)
    vision = {
        **{"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2},
        **{"out_hidden_size": 64, "patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1]},
    }
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = Qwen2_5_VLConfig(
        vision_config=vision, text_config={**TEXT, "rope_parameters": rope}, image_token_id=IMAGE
    )
    return cast(Any, Qwen2_5_VLForConditionalGeneration(config)).eval()


@cache
def gemma3() -> Any:
    """Image tokens see each other both ways; two of three layers have a window."""
    torch.manual_seed(0)
    vision = SiglipVisionConfig(**VISION)
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    text = {**TEXT, "head_dim": 16, "sliding_window": 16, "layer_types": layers}
    config = Gemma3Config(
        vision_config=vision,
        text_config=text,
        mm_tokens_per_image=4,
        image_token_index=IMAGE,
        boi_token_index=260,
        eoi_token_index=261,
    )
    return cast(Any, Gemma3ForConditionalGeneration(config)).eval()


def inputs_for(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """A processor's inputs for an image, beside the ids."""
    generator = torch.Generator().manual_seed(1)
    if isinstance(model, LlavaForConditionalGeneration):
        return {"pixel_values": torch.randn(1, 3, 30, 30, generator=generator)}
    if isinstance(model, Gemma3ForConditionalGeneration):
        return {
            "pixel_values": torch.randn(1, 3, 30, 30, generator=generator),
            "token_type_ids": (torch.tensor([ids]) == IMAGE).int(),
        }
    return {
        "pixel_values": torch.randn(16, 3 * 2 * 4 * 4, generator=generator),
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
        "mm_token_type_ids": (torch.tensor([ids]) == IMAGE).int(),
    }
