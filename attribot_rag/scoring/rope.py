"""Rotary embeddings whose frequencies change with the length of the sequence."""

from __future__ import annotations

from transformers import PreTrainedModel


def length_dependent_rope(model: PreTrainedModel) -> int | None:
    """The length up to which rotary frequencies are constant, or None if they always are."""
    config = model.config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    per_layer_type = [value for value in parameters.values() if isinstance(value, dict)]
    limits = [
        int(rope.get("original_max_position_embeddings") or config.max_position_embeddings)
        for rope in per_layer_type or [parameters]
        if rope.get("rope_type") in ("longrope", "dynamic")
    ]
    return min(limits, default=None)
