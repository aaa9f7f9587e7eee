"""Where and with what results were measured."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attribot_rag.evaluation.results import Setting
from attribot_rag.language_model import LanguageModel

_PACKAGES = ("attribot-rag", "torch", "transformers", "scikit-learn", "scipy")
_SAMPLED = 16


def setting(language_model: LanguageModel, clock: str) -> Setting:
    """That of a run that begins now."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return Setting(
        model=f"{Path(language_model.name).name}, {str(language_model.dtype).split('.')[-1]}",
        weights=fingerprint(language_model),
        device=language_model.device.type,
        clock=clock,
        hardware=hardware(language_model.device),
        versions=f"Python {platform.python_version()}, {versions}",
    )


def fingerprint(language_model: LanguageModel) -> str:
    """Tells checkpoints apart: of the configuration and some values of every parameter."""
    config = json.loads(language_model.model.config.to_json_string())
    digest = hashlib.sha256(repr(_set(config)).encode())
    for name, parameter in language_model.model.named_parameters():
        if parameter.is_meta:  # on the disk, or on another device until it is needed
            continue
        values = parameter.detach().flatten()
        step = max(1, len(values) // _SAMPLED)
        digest.update(repr((name, values[::step][:_SAMPLED].float().tolist())).encode())
    return digest.hexdigest()[:16]


def _set(config: Any) -> Any:
    """What a configuration sets: each release of transformers knows other options, unset here."""
    if not isinstance(config, dict):
        return config
    names = sorted(name for name in config if config[name] and name != "transformers_version")
    return {name: _set(config[name]) for name in names}


def hardware(device: torch.device | None = None) -> str:
    """The GPU's name, or the processor's with the number of threads."""
    if device is not None and device.type == "cuda":
        return torch.cuda.get_device_name(device)
    processor = platform.processor() or platform.machine()
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        named = [
            line for line in cpu_info.read_text().splitlines() if line.startswith("model name")
        ]
        processor = named[0].split(":", 1)[1].strip() if named else processor
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' * (threads != 1)} of {processor}"
