"""attribot-rag: which retrieved text caused the answer of a retrieval-augmented chatbot.

The names for everyday use. Results are described in `attribot_rag.attribution`, errors in
`attribot_rag.errors`, recorded generations in `attribot_rag.recording`; authors of integrations
build on `attribot_rag.runtime`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from attribot_rag._version import __version__

if TYPE_CHECKING:
    from attribot_rag.attribution import Attribution
    from attribot_rag.attributor import Attributor, AttributorOptions, Options
    from attribot_rag.context import ContextOptions, Document
    from attribot_rag.errors import AttributionError
    from attribot_rag.methods import (
        Auto,
        Hierarchical,
        LeaveOneOut,
        Masked,
        Method,
        Proxy,
        Pruned,
        Thorough,
    )
    from attribot_rag.model import load_model
    from attribot_rag.model.language_model import LanguageModel
    from attribot_rag.model.served import ServerOptions
    from attribot_rag.model.served_model import ServedModel
    from attribot_rag.scoring import Budget, ScoringOptions
    from attribot_rag.verdicts import VerdictOptions

__all__ = [
    "Attribution",
    "AttributionError",
    "Attributor",
    "AttributorOptions",
    "Auto",
    "Budget",
    "ContextOptions",
    "Document",
    "Hierarchical",
    "LanguageModel",
    "LeaveOneOut",
    "Masked",
    "Method",
    "Options",
    "Proxy",
    "Pruned",
    "ScoringOptions",
    "ServedModel",
    "ServerOptions",
    "Thorough",
    "VerdictOptions",
    "__version__",
    "load_model",
]

_MODULES = {
    "Attribution": "attribution",
    "AttributionError": "errors",
    "Attributor": "attributor",
    "AttributorOptions": "attributor",
    "Auto": "methods",
    "Budget": "scoring",
    "ContextOptions": "context",
    "Document": "context",
    "Hierarchical": "methods",
    "LanguageModel": "model.language_model",
    "LeaveOneOut": "methods",
    "Masked": "methods",
    "Method": "methods",
    "Options": "attributor",
    "Proxy": "methods",
    "Pruned": "methods",
    "ScoringOptions": "scoring",
    "ServedModel": "model.served_model",
    "ServerOptions": "model.served",
    "Thorough": "methods",
    "VerdictOptions": "verdicts",
    "load_model": "model",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, a name or a module: PyTorch and Transformers take seconds."""
    if name in _MODULES:
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    else:
        try:
            value = importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise  # a module of ours whose extra is not installed
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
