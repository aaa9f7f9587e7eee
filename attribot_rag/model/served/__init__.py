"""A model that another machine serves over HTTP."""

from attribot_rag.model.served.client import ServerOptions
from attribot_rag.model.served.weights import ServedWeights

__all__ = ["ServedWeights", "ServerOptions"]
