"""Loading of a model with its tokenizer by name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import httpx
import torch
from huggingface_hub import constants, get_session, try_to_load_from_cache
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
)

from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.smollm2 import smollm2_folder

DEFAULT_MODEL = "smollm2-135m"
_HUB_TIMEOUT = 5.0  # seconds


def load_model(
    name: str = DEFAULT_MODEL, *, device: str | None = None, dtype: torch.dtype | None = None
) -> LanguageModel:
    """Load a model with its tokenizer; raises InvalidInput if it cannot be loaded.

    Args:
        name: 'smollm2-135m' (embedded, offline), a path, or any Hugging Face model id, which is
            looked up in the hub's cache alone without a connection to the hub.
        device: 'cpu', 'cuda', 'cuda:1', ...; by default CUDA if there is a GPU.
        dtype: By default float32 on the CPU, and the checkpoint's own elsewhere.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    location = str(smollm2_folder()) if name == DEFAULT_MODEL else os.path.expanduser(name)
    if _is_path(location) and not Path(location).is_dir():
        raise InvalidInput(
            f"the model {name!r} cannot be loaded: there is no such folder; pass "
            f"{DEFAULT_MODEL!r}, the path of a folder with a model, or a Hugging Face id"
        )
    cached_only = not (Path(location).is_dir() or _hub_can_be_reached())
    if cached_only and not _is_cached(location):
        raise InvalidInput(
            f"the model {name!r} cannot be loaded: there is no such folder, {constants.ENDPOINT} "
            f"cannot be reached, and {constants.HF_HUB_CACHE} does not hold it; pass "
            f"{DEFAULT_MODEL!r}, which is embedded, or the path of a folder with a model, or "
            "download it first with a connection"
        )
    try:
        if dtype is None and torch.device(device).type == "cpu":
            dtype = torch.float32
        config = AutoConfig.from_pretrained(location, local_files_only=cached_only)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model: PreTrainedModel = kind.from_pretrained(
            location,
            dtype=dtype or "auto",
            local_files_only=cached_only,
            adapter_kwargs={"local_files_only": cached_only},
        )
        torch.nn.Module.to(model, device)
        model.train(False)
        tokenizer = AutoTokenizer.from_pretrained(location, local_files_only=cached_only)
    # A PyTorch that was built without CUDA raises AssertionError.
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        raise InvalidInput(
            f"the model {name!r} cannot be loaded on {device!r}: {error}; pass another model "
            f"({DEFAULT_MODEL!r}, the path of a folder, or a Hugging Face id that can be reached), "
            "or another device"
        ) from error
    return LanguageModel(model, tokenizer)


def _is_path(location: str) -> bool:
    """Whether this cannot be a Hugging Face id, which is a name or an owner and a name."""
    path = location.replace(os.sep, "/")
    return path.startswith((".", "/", "~")) or Path(location).is_absolute() or path.count("/") > 1


def _hub_can_be_reached() -> bool:
    """Asked once: transformers asks again for every file, with pauses between."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT)
    except httpx.TransportError:
        return False
    return True


def _is_cached(name: str) -> bool:
    with suppress(ValueError):  # of a name that no id may have
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    return False
