"""The data of an attribution: scores, spans, verdicts, citations, provenance and the summary."""

from attribot_rag.result.citations import Citations, CitedSentence, cite
from attribot_rag.result.result import (
    Basis,
    Counterfactual,
    Provenance,
    RankedDocument,
    RankedSource,
    ResponseText,
    Result,
    SourceGroup,
)
from attribot_rag.result.summary import summarize
from attribot_rag.result.summary_schema import ErrorDescription, Summary
from attribot_rag.result.verdict import Check, Marker, Numbering, Verdict

__all__ = [
    "Basis",
    "Check",
    "Citations",
    "CitedSentence",
    "Counterfactual",
    "ErrorDescription",
    "Marker",
    "Numbering",
    "Provenance",
    "RankedDocument",
    "RankedSource",
    "ResponseText",
    "Result",
    "SourceGroup",
    "Summary",
    "Verdict",
    "cite",
    "summarize",
]
