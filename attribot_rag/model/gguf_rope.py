"""The scaling of rotary embeddings in GGUF files, which transformers mostly leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FACTORS = "rope_freqs.weight"  # a factor for each frequency, as Llama 3.1 and later have them
_LOW, _HIGH, _POSITIONS = 1.0, 4.0, 8192  # of all these models


def add_rope_scaling(file: Path, config: Any) -> None:
    """Add to the configuration the scaling that the file has for Llama 3.1 and later.

    Raises ValueError for any other scaling that the configuration lacks.
    """
    from gguf import GGUFReader

    reader = GGUFReader(file)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors if "rope_" in tensor.name}
    factors = tensors.pop(_FACTORS, None)
    parameters = getattr(config, "rope_parameters", None) or {}
    # Of an architecture whose layers differ in theirs, transformers knows the factors.
    if factors is not None and "rope_theta" in parameters:
        config.rope_parameters = {**parameters, **_llama3(factors, parameters["rope_theta"])}
    nested = (value for value in parameters.values() if isinstance(value, Mapping))
    read = {"none", *(each.get("rope_type") for each in (parameters, *nested))}
    kinds = {
        bytes(field.parts[field.data[0]]).decode()
        for name, field in reader.fields.items()
        if name.endswith(".rope.scaling.type")
    }
    if unread := [*tensors, *(kinds - read)]:
        raise ValueError(f"transformers does not read its {' and '.join(unread)} rotary scaling")


def _llama3(factors: npt.ArrayLike, theta: float) -> dict[str, Any]:
    """The parameters that give these factors; raises ValueError if none do."""
    expected = np.asarray(factors, np.float64)
    wavelengths = 2 * np.pi * theta ** (np.arange(len(expected)) / len(expected))
    smooth = np.clip((_POSITIONS / wavelengths - _LOW) / (_HIGH - _LOW), 0, 1)
    factor = float(expected.max())
    if not np.allclose(1 / ((1 - smooth) / factor + smooth), expected, rtol=1e-3):
        raise ValueError(f"its rotary embeddings are scaled ({_FACTORS}), and not as Llama 3's")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _POSITIONS,
    }
