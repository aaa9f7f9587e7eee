"""A model that another machine serves over HTTP."""

from attribot_rag.model.served.backend import ServerBackend
from attribot_rag.model.served.client import ServerOptions

__all__ = ["ServerBackend", "ServerOptions"]
