"""Loading of models, among them the embedded default."""

from attribot_rag.models.loading import DEFAULT_MODEL, load_model

__all__ = ["DEFAULT_MODEL", "load_model"]
