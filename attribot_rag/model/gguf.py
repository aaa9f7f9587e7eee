"""Models in GGUF files, converted once to folders that load quickly."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attribot_rag.errors import MissingExtra
from attribot_rag.model.gguf_rope import add_rope_scaling

_MAGIC = b"GGUF"


def is_gguf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def converted(file: Path, folder_name: str | None = None) -> Path:
    """The folder with a GGUF file's model in safetensors and float32, and its tokenizer.

    The first call converts it, most of a minute for 135M parameters. The folder is in
    ATTRIBOT_RAG_CACHE, or else in ~/.cache/attribot-rag; a file that was changed has another.
    Raises MissingExtra without gguf and accelerate; ValueError for a file that transformers would
    read as another model; OSError, ValueError and the like from transformers.
    """
    folder = cache_folder() / (folder_name or _named_after(file.resolve()))
    if not folder.exists():
        MissingExtra.check(f"the GGUF file {file}", "embedded", "gguf", "accelerate")
        _convert(file, folder)
    return folder


def cache_folder() -> Path:
    folder = os.environ.get("ATTRIBOT_RAG_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "attribot-rag"


def _named_after(file: Path) -> str:
    state = file.stat()
    key = f"{file}\0{state.st_size}\0{state.st_mtime_ns}"
    return f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _convert(file: Path, folder: Path) -> None:
    """Write to a temporary folder first, so that no half-written folder is ever used."""
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    load: Any = AutoModelForCausalLM.from_pretrained  # which does not say that it gives two
    model, report = load(
        file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
    )
    if lacking := sorted(report["missing_keys"]):
        raise ValueError(f"the file lacks {len(lacking)} of the weights, such as {lacking[0]}")
    add_rope_scaling(file, model.config)
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
