"""The result: scores, spans, citations, provenance, and its serialized form."""

from attribot_rag.attribution.citations import Citations, CitedSentence, cite
from attribot_rag.attribution.provenance import Provenance
from attribot_rag.attribution.result import Attribution, RankedSource, ResponseText, SourceGroup
from attribot_rag.attribution.serialization import SCHEMA_VERSION
from attribot_rag.attribution.verdict import Marker, Verdict

__all__ = [
    "SCHEMA_VERSION",
    "Attribution",
    "Citations",
    "CitedSentence",
    "Marker",
    "Provenance",
    "RankedSource",
    "ResponseText",
    "SourceGroup",
    "Verdict",
    "cite",
]
