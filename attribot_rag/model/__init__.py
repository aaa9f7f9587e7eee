"""The model with its tokenizer, what it generated, its loading, and whose turn it is."""

from attribot_rag.model.loading import DEFAULT_MODEL, load_model

__all__ = ["DEFAULT_MODEL", "load_model"]
