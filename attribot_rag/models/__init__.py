"""Loading models, the embedded default among them."""

from attribot_rag.models.loading import DEFAULT_MODEL, load_model

__all__ = ["DEFAULT_MODEL", "load_model"]
