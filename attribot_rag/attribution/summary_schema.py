"""The types of a summary, from which its JSON schema is generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from attribot_rag.attribution.verdict import Kind, Reason, Relation

Index = Annotated[int, Field(ge=0)]
Indices = Annotated[list[Index], Field(json_schema_extra={"uniqueItems": True})]
Share = Annotated[float, Field(ge=0, le=1)]
SchemaVersion = Annotated[
    str,
    Field(
        pattern=r"^1\.[0-9]+$",
        description="Major and minor version of this schema. Another major version is another "
        "format; a minor version adds fields.",
    ),
]
RunId = Annotated[
    str, Field(description="The framework's name for the run of the model that gave the answer.")
]


class SentenceSummary(TypedDict):
    """The characters [start, end) and what they cite, by a rule of thumb: without a verdict."""

    start: Index
    end: Index
    sources: list[Index]
    """Ids of the cited sources, best first; `sources` of the summary need not hold them."""
    documents: Indices
    """Indices of the documents that hold the cited sources; `documents` of the summary need not
    hold them."""
    relation: Relation
    """Whether each of the sources matters by itself, the sentence stands with either of them alone,
    or only with all of them together."""


class JudgedSentenceSummary(SentenceSummary):
    """The characters [start, end), what they cite, and the verdict on them."""

    verdict: Kind
    effect: float | None
    """The sum of the cited sources' scores for the sentence, or the joint score of a group, in
    nats."""
    reliance: float | None
    """What removing the whole context costs the sentence, in nats."""
    follows: Index | None
    """Index of the sentence that this sentence follows from."""
    reason: Reason | None
    """Why an open verdict is open: no part of the context stands out, documents were not found in
    the prompt, or the budget ran out."""


class DocumentSummary(TypedDict):
    """One retrieved chunk, without its text."""

    index: Index
    """Its index among the documents that were given."""
    id: str | None
    """The owner's name for it."""
    number: Annotated[int, Field(ge=1)] | None
    """Counts the cited documents from 1, in the order in which they are first cited; null for
    others."""
    title: str
    """What its metadata calls it, or where that says it is from; empty without either."""
    url: str
    """Where its metadata says that it can be read; empty if nowhere, or if it is too long."""
    located: bool
    """Whether it stands in the prompt; if not, it has no sources and no score, which is not a score
    of 0."""
    located_share: Share
    """The share of its text that stands in the prompt."""
    metadata: NotRequired[dict[str, str | float | bool]]
    """Texts, finite numbers and booleans of what its owner attached. Left out altogether where the
    summary would be too long."""


class SourceSummary(TypedDict):
    """A scored piece of text."""

    id: Index
    """Its index in the attribution's sources."""
    text: str
    documents: Indices
    """Indices of the documents that hold it, ascending."""
    score: float
    """Its score for the whole response; positive where the source supports it."""
    exact: bool
    """Whether its text was removed to the character from the full prompt and everything after it
    encoded again; if not, its score is approximate."""


class Omitted(TypedDict):
    """How many sources, documents and sentences of the attribution are not in the summary."""

    sources: Index
    documents: Index
    sentences: Index


class Summary(TypedDict):
    """Verdicts, cited documents and the best sources. Texts that were too long end in an ellipsis;
    what did not fit at all is counted under omitted."""

    schema_version: SchemaVersion
    status: Literal["complete", "partial"]
    """Partial if the budget ran out before everything was scored."""
    run_id: NotRequired[RunId]
    start: Index
    """Where the attributed response begins; 0 unless the prompt was given back before it."""
    end: Index
    """Where it ends."""
    unit: Annotated[str, Field(min_length=1)]
    """What scores are measured in: nats, unless the method is a baseline with another unit."""
    sentences: list[JudgedSentenceSummary | SentenceSummary]
    """The first sentences of the response, in order."""
    documents: list[DocumentSummary]
    """First the cited documents, by their number, then those of the best sources, then the
    others."""
    sources: list[SourceSummary]
    """The sources with the highest scores for the whole response, best first."""
    agreement: Share | None
    """How well approximate scores met the exact scores of the same sources, or null if that was not
    measured."""
    notes: Annotated[list[str], Field(max_length=10)]
    """What a reader should know before trusting the scores: the first ten notes."""
    method: str
    """Which ablations were asked for."""
    model: str
    """The model without the folder that it was loaded from."""
    retokenized: bool
    """True if the ids were made from text and need not be those that the model saw or gave."""
    seconds: Annotated[float, Field(ge=0)]
    """What the attribution took."""
    omitted: Omitted


class Pending(TypedDict):
    """The attribution is under way in the background."""

    status: Literal["pending"]
    run_id: NotRequired[RunId]


class ErrorDescription(TypedDict):
    """What went wrong."""

    type: Annotated[str, Field(min_length=1)]
    """The name of the exception's class."""
    message: Annotated[str, Field(max_length=1000)]
    """What went wrong and how to mend it."""


class OmittedCalls(TypedDict):
    """How many calls are not in the summary."""

    calls: Index


class Failure(TypedDict):
    """Why the answer was not attributed."""

    schema_version: SchemaVersion
    status: Literal["error", "unsupported"]
    """'unsupported' for what cannot be attributed at all, such as a model that is not local."""
    run_id: NotRequired[RunId]
    error: ErrorDescription
    calls: NotRequired[list[Summary | Failure | Pending]]
    """What each call's own answer is attributed to, among the documents in its own prompt;
    positions are characters of that answer."""
    omitted: NotRequired[OmittedCalls]


class Calls(TypedDict):
    """An answer that several calls of a model gave, one after the other."""

    schema_version: SchemaVersion
    status: Literal["complete", "partial", "pending"]
    """'partial' if a call has no attribution or only a part of one."""
    run_id: NotRequired[RunId]
    calls: list[Summary | Failure | Pending]
    """What each call's own answer is attributed to, among the documents in its own prompt;
    positions are characters of that answer."""
    places: list[tuple[Index, Index]]
    """Per call the characters [start, end) of the answer that it gave."""
    omitted: OmittedCalls
