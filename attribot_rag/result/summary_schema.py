"""The types of a summary. Its JSON schema is generated from them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from attribot_rag.context.pieces import PromptPart
from attribot_rag.result.remarks import Standing, Trust
from attribot_rag.result.result import Basis
from attribot_rag.result.verdict import Check, Kind, Reason, Relation, Support

SCHEMA_VERSION = "1.15"

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


class MarkerSummary(TypedDict):
    """A citation by the model at the characters [start, end), with its mark-up; one for each label
    in it."""

    start: Index
    end: Index
    label: str
    """What the marker calls the document: a number, or the prompt's own label."""
    document: Index | None
    """Index of the document; null if no document has this label."""
    supported: bool | None
    """Whether the document has an effect on the sentence; null if that was not measured."""


class RemarkSummary(TypedDict):
    """A remark on a sentence, in addition to its citations."""

    key: str
    """Which remark it is."""
    text: str
    """The words, as in the cited text."""
    values: list[str]
    """The words of the answer or of a document that the remark contains."""
    documents: Indices
    """Indices of the documents that the remark is about."""


class SentenceSummary(TypedDict):
    """The characters [start, end) of a sentence, its citations and its verdict."""

    start: Index
    end: Index
    text: str
    """The characters themselves. `offsets` of the summary says which text they are from."""
    verdict: Kind | None
    """Null for an attribution without verdicts, which cites by a rule of thumb."""
    source_ids: list[Index]
    """Ids of the cited sources, best first. Some of them may be missing from `sources` of the
    summary."""
    documents: Indices
    """Indices of the documents that contain the cited sources. The last ones may be missing from
    `documents` of the summary."""
    relation: Relation
    """Whether every source matters, any one of them is enough, or only all of them together. In a
    composite, if the sentence cites several earlier answers, this is about these answers."""
    effect: float | None
    """How much the sentence loses without the cited sources, in nats: the sum of their scores, or
    the joint score of a group. For a sentence that follows from another one, or has an origin, the
    loss without that."""
    reliance: float | None
    """How much the sentence loses without all documents, in nats."""
    kept: float | None
    """The share of the reliance that the sentence keeps if the cited sources are the only ones in
    the prompt. If either source is enough, with the first one."""
    in_part: bool
    """Whether the cited sources explain only a part of the sentence: `kept` is less than 0.7."""
    follows: Index | None
    """Index of the sentence that this sentence follows from."""
    origin: PromptPart | None
    """Which part of the prompt the sentence comes from, if its verdict is conversation."""
    reason: Reason | None
    """Why an open verdict is open: no part of the documents stands out, documents were not found in
    the prompt, the budget ran out, or judging reached its own limit (limit)."""
    checks: list[Check]
    """Warnings, for example about a value that is missing from the cited sources. They come from a
    comparison of texts, and change no verdict."""
    support: Support | None
    """Whether the cited text supports the sentence; null if the sentence is not judged."""
    remarks: list[RemarkSummary]
    """Remarks on its support and its values, in words."""
    standing: Standing | None
    """What users should see about the sentence. 'full': a retrieved document supports it.
    'disputed': the cited document supports it, but another document has a different value.
    'contradicted': a document has a different value. 'partial': the cited or closest document may
    not support it. 'none': no retrieved document seems to support it. 'open': attribot-rag could
    not decide. 'elsewhere': it comes from another part of the prompt. Null if the sentence is not
    judged."""
    markers: list[MarkerSummary]
    """The model's own citations in it. In a composite, they do not name documents."""


class DocumentSummary(TypedDict):
    """One retrieved chunk, without its text."""

    index: Index
    """Its index among the given documents, and its position in the list. If documents before it
    were omitted, the index is beyond the list."""
    id: str | None
    """The id that its owner gave it."""
    number: Annotated[int, Field(ge=1)] | None
    """Its number in citations, from 1, in the order of first citation. If the model wrote markers
    such as [2], it is the number in the prompt, which several documents may share. Null for
    documents that are not cited."""
    title: str
    """Its title in its metadata, or where the metadata says it is from; empty without either."""
    url: str
    """Its address in its metadata; empty if there is none, or if it is too long."""
    located: bool
    """Whether the prompt contains it. If not, it has no sources and no score, which differs from a
    score of 0."""
    located_share: Share
    """The share of its text that is in the prompt."""
    metadata: dict[str, str | float | bool]
    """The texts, finite numbers and booleans of its metadata. Empty if the summary would be too
    long."""


class SourceSummary(TypedDict):
    """A scored piece of text."""

    id: Index
    """Its index in the attribution's sources."""
    text: str
    documents: Indices
    """Indices of the documents that contain it, ascending."""
    score: float
    """Its score for the whole response; positive if the source makes it more likely. In a
    composite, its score for the earlier answer that it was retrieved for."""
    exact: bool
    """Whether its score is exact: exactly its text was removed from the full prompt, and the model
    read everything after it again. Other scores are approximate."""
    estimated: bool
    """Whether its score is an estimate, and not measured."""


class Omitted(TypedDict):
    """How many sources, documents, sentences and calls are not in the summary."""

    sources: Index
    documents: Index
    sentences: Index
    calls: Index


class ErrorDescription(TypedDict):
    """The error of a failed attribution."""

    type: Annotated[str, Field(min_length=1)]
    """The name of the exception's class."""
    message: Annotated[str, Field(max_length=1000)]
    """What went wrong, and how to fix it."""


class Summary(TypedDict):
    """Verdicts, cited documents and the best sources, or why there are none. Every status has the
    same fields: lists are empty and values null if nothing was attributed. Texts that were too long
    end in an ellipsis. What did not fit is counted under omitted."""

    schema_version: SchemaVersion
    status: Literal["complete", "incomplete", "composite", "pending", "error", "not_attributable"]
    """'incomplete': the budget or the limit of judging left something undone, or one of several
    calls has no whole attribution. 'composite': the answer was made of earlier answers, which
    are in `calls`. It is attributed to these, and they to the documents retrieved for them; its
    sentences cite what the earlier answers cite. 'pending': the attribution is under way,
    perhaps with the sentences judged so far. 'not_attributable': the answer cannot be
    attributed at all, for example because the model is not local."""
    run_id: RunId | None
    question: str | None
    """The question or its beginning, if the framework reports it."""
    answer: str | None
    """The attributed text or its beginning; null if there is none yet."""
    cited_text: str | None
    """The answer with its citations and remarks, as people see it; null if there are none yet, or
    if it is too long."""
    error: ErrorDescription | None
    """Why the answer was not attributed, for the statuses 'error' and 'not_attributable'."""
    start: Index
    """Where the attributed response begins; 0 unless the prompt was returned before it."""
    end: Index
    """Where it ends."""
    offsets: Literal["shown", "answer"]
    """Which text the positions belong to: the text that the caller got, or the model's own answer,
    if another step changed it."""
    unit: Annotated[str, Field(min_length=1)] | None
    """The unit of the scores: nats, words for word comparison, or the unit of a baseline."""
    sentences: list[SentenceSummary]
    """The first sentences of the response, in order. A sentence that is missing from the caller's
    text is an empty interval."""
    trust: Trust | None
    """How many judged sentences have which standing, and how many passages there are; null if none
    has one."""
    documents: list[DocumentSummary]
    """The documents in their order; the first ones and the cited ones if not all fit."""
    sources: list[SourceSummary]
    """The sources with the highest scores for the whole response, best first. In a composite, the
    cited ones, in the order of the sentences."""
    notes: Annotated[list[str], Field(max_length=10)]
    """What a reader should know before trusting the scores: the first ten notes."""
    method: str | None
    """Which method was used."""
    model: str | None
    """The model that the scores belong to, without its folder."""
    basis: Basis | None
    """'cause' if that model gave the answer. 'reader' if another model did, so the scores say which
    texts support the answer, not what caused it."""
    answered_by: str | None
    """The model that gave the answer if a reader read it; null if its name is unknown."""
    retokenized: bool | None
    """True if the ids were made from text, so they may differ from those that the model saw or
    gave."""
    seconds: Annotated[float, Field(ge=0)] | None
    """How long the attribution took."""
    calls: list[Summary]
    """The earlier answers that the answer was made of, in their order, each attributed to the
    documents in its own prompt. Positions are characters of that answer."""
    omitted: Omitted
