"""A model that another machine serves over HTTP; only its tokenizer is here."""

from attribot_rag.model.served.client import ServerOptions
from attribot_rag.model.served.model import ServedModel

__all__ = ["ServedModel", "ServerOptions"]
