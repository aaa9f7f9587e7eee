"""A model that another machine serves over HTTP; only its tokenizer is here."""

from attribot_rag.served.client import ServerOptions
from attribot_rag.served.model import ServedModel

__all__ = ["ServedModel", "ServerOptions"]
