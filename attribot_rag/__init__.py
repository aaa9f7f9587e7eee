"""attribot-rag: which retrieved text caused the answer of a retrieval-augmented chatbot."""

from attribot_rag.attribution import (
    Attribution,
    Citations,
    CitedSentence,
    Marker,
    Provenance,
    RankedSource,
    SourceGroup,
    Verdict,
    cite,
)
from attribot_rag.attributor import Attributor
from attribot_rag.context import ContextOptions, Document, DocumentSpan, Occurrence, Source
from attribot_rag.errors import (
    AttributionError,
    ContextTooLong,
    DocumentsNotLocated,
    InvalidInput,
    NotRecorded,
    QueueFull,
    SchemaError,
    ScoringFailed,
    ScoringOutOfMemory,
    TokenizerMismatch,
    UnsupportedModel,
)
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Proxy, Pruned
from attribot_rag.models import load_model
from attribot_rag.recording import GenerationRecorder
from attribot_rag.scoring import Budget, ScoringOptions
from attribot_rag.verdicts import VerdictOptions

__all__ = [
    "Attribution",
    "AttributionError",
    "Attributor",
    "Auto",
    "Budget",
    "Citations",
    "CitedSentence",
    "ContextOptions",
    "ContextTooLong",
    "Document",
    "DocumentSpan",
    "DocumentsNotLocated",
    "Generation",
    "GenerationRecorder",
    "Hierarchical",
    "InvalidInput",
    "LanguageModel",
    "LeaveOneOut",
    "Marker",
    "Masked",
    "Method",
    "NotRecorded",
    "Occurrence",
    "Provenance",
    "Proxy",
    "Pruned",
    "QueueFull",
    "RankedSource",
    "SchemaError",
    "ScoringFailed",
    "ScoringOptions",
    "ScoringOutOfMemory",
    "Source",
    "SourceGroup",
    "TokenizerMismatch",
    "UnsupportedModel",
    "Verdict",
    "VerdictOptions",
    "cite",
    "load_model",
]
