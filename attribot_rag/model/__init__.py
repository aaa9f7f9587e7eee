"""The model with its tokenizer, its generations, its loading, and the turns of its users."""

from attribot_rag.model.language_model import Prompt
from attribot_rag.model.loading import DEFAULT_MODEL, load_model

__all__ = ["DEFAULT_MODEL", "Prompt", "load_model"]
