"""The result: scores, spans, citations, provenance, its renderings and its serialized form."""

from attribot_rag.attribution.attribution import Attribution, attribution_schema, summary_schema
from attribot_rag.attribution.composition import CitedOrigin, ComposedSentence, Composition
from attribot_rag.display.report import Markers
from attribot_rag.result import (
    Basis,
    Check,
    Citations,
    CitedSentence,
    Counterfactual,
    Marker,
    Numbering,
    Provenance,
    RankedDocument,
    RankedSource,
    ResponseText,
    SourceGroup,
    Verdict,
    cite,
)
from attribot_rag.result.summary_schema import SCHEMA_VERSION

__all__ = [
    "SCHEMA_VERSION",
    "Attribution",
    "Basis",
    "Check",
    "Citations",
    "CitedOrigin",
    "CitedSentence",
    "ComposedSentence",
    "Composition",
    "Counterfactual",
    "Marker",
    "Markers",
    "Numbering",
    "Provenance",
    "RankedDocument",
    "RankedSource",
    "ResponseText",
    "SourceGroup",
    "Verdict",
    "attribution_schema",
    "cite",
    "summary_schema",
]
