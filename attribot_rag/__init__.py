"""attribot-rag: which retrieved text caused the answer of a retrieval-augmented chatbot.

The names for everyday use. Results are described in `attribot_rag.attribution`, errors in
`attribot_rag.errors`, recorded generations in `attribot_rag.recording`; authors of integrations
build on `attribot_rag.runtime`.
"""

from attribot_rag._version import __version__
from attribot_rag.attribution import Attribution
from attribot_rag.attributor import Attributor, AttributorOptions
from attribot_rag.context import ContextOptions, Document
from attribot_rag.errors import AttributionError
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Proxy, Pruned
from attribot_rag.models import load_model
from attribot_rag.scoring import Budget, ScoringOptions
from attribot_rag.served import ServedModel, ServerOptions
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
    "Proxy",
    "Pruned",
    "ScoringOptions",
    "ServedModel",
    "ServerOptions",
    "VerdictOptions",
    "__version__",
    "load_model",
]
