"""The result: scores, spans, citations, provenance, and its serialized form."""

from attribot_rag.attribution.citations import Citations, CitedSentence, cite
from attribot_rag.attribution.composition import CitedOrigin, ComposedSentence, Composition
from attribot_rag.attribution.counterfactual import Counterfactual
from attribot_rag.attribution.provenance import Provenance
from attribot_rag.attribution.result import (
    Attribution,
    RankedDocument,
    RankedSource,
    ResponseText,
    SourceGroup,
)
from attribot_rag.attribution.serialization import SCHEMA_VERSION
from attribot_rag.attribution.verdict import Check, Marker, Numbering, Verdict

__all__ = [
    "SCHEMA_VERSION",
    "Attribution",
    "Check",
    "Citations",
    "CitedOrigin",
    "CitedSentence",
    "ComposedSentence",
    "Composition",
    "Counterfactual",
    "Marker",
    "Numbering",
    "Provenance",
    "RankedDocument",
    "RankedSource",
    "ResponseText",
    "SourceGroup",
    "Verdict",
    "cite",
]
