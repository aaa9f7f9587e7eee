"""The setting of a run: model, weights, hardware, clock and versions."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attribot_rag.errors import InvalidInput
from attribot_rag.model.local_model import LocalModel
from benchmarks.experiment.results import Setting

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""'wall' is the time that a user waits. 'cpu' is the processor time summed over threads, which
other load on the machine does not change; it does not count a GPU."""

_PACKAGES = ("attribot-rag", "torch", "transformers", "scikit-learn", "scipy")
_SAMPLED = 16


def check_clock(clock: str, device_type: str) -> None:
    """Raises InvalidInput for an unknown clock, and for 'cpu' on another device."""
    if clock not in CLOCKS:
        raise InvalidInput(f"unknown clock {clock!r}; choose one of {', '.join(CLOCKS)}")
    if clock == "cpu" and device_type != "cpu":
        raise InvalidInput(f"clock 'cpu' does not count what {device_type} does; use 'wall'")


def setting(language_model: LocalModel, clock: str) -> Setting:
    """The setting of a run of this process."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return Setting(
        model=f"{Path(language_model.name).name}, {str(language_model.dtype).split('.')[-1]}",
        weights=model_digest(language_model),
        device=language_model.device.type,
        clock=clock,
        hardware=hardware(language_model.device),
        versions=f"Python {platform.python_version()}, {versions}",
    )


def model_digest(language_model: LocalModel) -> str:
    """A digest of the configuration and of some values of every parameter."""
    config = json.loads(language_model.model.config.to_json_string())
    digest = hashlib.sha256(repr(_without_unset(config)).encode())
    for name, parameter in language_model.model.named_parameters():
        if parameter.is_meta:  # on the disk, or on another device until it is needed
            continue
        values = parameter.detach().flatten()
        step = max(1, len(values) // _SAMPLED)
        digest.update(repr((name, values[::step][:_SAMPLED].float().tolist())).encode())
    return digest.hexdigest()[:16]


def _without_unset(config: Any) -> Any:
    """The options that have a value: releases of transformers differ in the others."""
    if not isinstance(config, dict):
        return config
    names = sorted(name for name in config if config[name] and name != "transformers_version")
    return {name: _without_unset(config[name]) for name in names}


def hardware(device: torch.device | None = None) -> str:
    """The name of the GPU, or the name of the processor with the number of threads."""
    if device is not None and device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpu_info = Path("/proc/cpuinfo")
    text = cpu_info.read_text() if cpu_info.exists() else ""
    match = re.search(r"^model name\s*: *(.*\S)", text, re.MULTILINE)
    processor = match[1] if match else platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' * (threads != 1)} of {processor}"
