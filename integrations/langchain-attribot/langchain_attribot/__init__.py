"""Shows which retrieved text caused the answer of a LangChain chain."""

from typing import TYPE_CHECKING

from attribot_rag.runtime import AttributedRun
from langchain_attribot.callbacks import retrieved
from langchain_attribot.documents import METADATA_KEY
from langchain_attribot.handler import AttributionCallbackHandler
from langchain_attribot.messages import citations_of
from langchain_attribot.wrapping import attribute, with_attribution

if TYPE_CHECKING:
    from langchain_attribot.middleware import AttributionMiddleware

__version__ = "0.1.0"

__all__ = [
    "METADATA_KEY",
    "AttributedRun",
    "AttributionCallbackHandler",
    "AttributionMiddleware",
    "__version__",
    "attribute",
    "citations_of",
    "retrieved",
    "with_attribution",
]


def __getattr__(name: str) -> object:
    if name == "AttributionMiddleware":  # needs langchain, an extra
        from langchain_attribot.middleware import AttributionMiddleware

        return AttributionMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
