"""Models with their tokenizers: loading, generations, servers, chat messages and turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily

if TYPE_CHECKING:
    from attribot_rag.model.language_model import Prompt as Prompt
    from attribot_rag.model.loading import DEFAULT_MODEL as DEFAULT_MODEL
    from attribot_rag.model.loading import load_model as load_model
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            ".language_model": ["Prompt"],
            ".loading": ["DEFAULT_MODEL", "load_model"],
        },
    )
