"""The types of a summary, from which its JSON schema is generated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from attribot_rag.context.context import PromptPart
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
    """A citation of the model's own at the characters [start, end), mark-up included; one for each
    label in it."""

    start: Index
    end: Index
    label: str
    """What it calls the document: a number, or the prompt's own label."""
    document: Index | None
    """Index of the document, null if there is none of that label."""
    supported: bool | None
    """Whether the document has an effect on the sentence; null if that was not measured."""


class RemarkSummary(TypedDict):
    """What there is to say of a sentence beside its citations."""

    key: str
    """Which words these are."""
    text: str
    """The words themselves, as in the cited text."""
    values: list[str]
    """The words of the answer, or of a document, that stand in them."""
    documents: Indices
    """Indices of the documents that the remark is about."""


class SentenceSummary(TypedDict):
    """The characters [start, end) of a sentence, its citations and its verdict."""

    start: Index
    end: Index
    text: str
    """The characters themselves, to which `offsets` of the summary refers."""
    verdict: Kind | None
    """Null for an attribution without verdicts, which cites by a rule of thumb."""
    source_ids: list[Index]
    """Ids of the cited sources, best first; `sources` of the summary need not hold them."""
    documents: Indices
    """Indices of the documents that hold the cited sources: in `documents` of the summary, too,
    which need not hold the last ones."""
    relation: Relation
    """Whether each of the sources matters by itself, the sentence stands with either of them alone,
    or only with all of them together. Of a composite, where the sentence cites several earlier
    answers, that is meant of these."""
    effect: float | None
    """What removing the cited sources costs the sentence, in nats: the sum of their scores, or the
    joint score of a group. Of what a sentence follows from, or of its origin, what removing that
    costs."""
    reliance: float | None
    """What removing the whole context costs the sentence, in nats."""
    kept: float | None
    """The share of the reliance that the sentence keeps with only the cited sources in the context;
    of those that are either, with the first."""
    in_part: bool
    """Whether the cited sources explain the sentence only in part: `kept` is less than 0.7."""
    follows: Index | None
    """Index of the sentence that this sentence follows from."""
    origin: PromptPart | None
    """The part of the prompt that a sentence with the verdict conversation comes from."""
    reason: Reason | None
    """Why an open verdict is open: no part of the context stands out, documents were not found in
    the prompt, the budget ran out, or judging reached its own limit (limit)."""
    checks: list[Check]
    """Remarks, such as on a value that the cited sources do not have: texts are compared, and no
    verdict depends on it."""
    support: Support | None
    """Whether the cited text says it; null for what is not judged."""
    remarks: list[RemarkSummary]
    """What to know of its support and its values, in words."""
    standing: Standing | None
    """What a reader may think of it: 'said' by retrieved text, 'disputed' by another text than the
    cited one, 'differs' from it, 'partial' if the text that prompted it does not say it, 'none' if
    no retrieved text does, 'open' if its source is unclear, 'elsewhere' if it is from the rest of
    the prompt. Null where that is not known."""
    markers: list[MarkerSummary]
    """What the model itself cites in it. Of a composite, the documents are not told."""


class DocumentSummary(TypedDict):
    """One retrieved chunk, without its text."""

    index: Index
    """Its index among the documents that were given, and its place in the list, unless it stands
    behind documents that were omitted: then that is beyond the list."""
    id: str | None
    """The owner's name for it."""
    number: Annotated[int, Field(ge=1)] | None
    """Counts the cited documents from 1, in the order in which they are first cited, or is that of
    the prompt where the model wrote markers such as [2] of its own: there several documents may
    share one. Null for documents that are not cited."""
    title: str
    """What its metadata calls it, or where that says it is from; empty without either."""
    url: str
    """Where its metadata says that it can be read; empty if nowhere, or if it is too long."""
    located: bool
    """Whether it stands in the prompt; if not, it has no sources and no score, which is not a score
    of 0."""
    located_share: Share
    """The share of its text that stands in the prompt."""
    metadata: dict[str, str | float | bool]
    """Texts, finite numbers and booleans of what its owner attached. Empty where the summary would
    be too long with it."""


class SourceSummary(TypedDict):
    """A scored piece of text."""

    id: Index
    """Its index in the attribution's sources."""
    text: str
    documents: Indices
    """Indices of the documents that hold it, ascending."""
    score: float
    """Its score for the whole response; positive where the source supports it. Of a composite, for
    the earlier answer that it was read for."""
    exact: bool
    """Whether its text was removed to the character from the full prompt and everything after it
    encoded again; if not, its score is approximate."""
    estimated: bool
    """Whether its score is no measurement but an estimate."""


class Omitted(TypedDict):
    """Numbers of the sources, documents, sentences and calls that are not in the summary."""

    sources: Index
    documents: Index
    sentences: Index
    calls: Index


class ErrorDescription(TypedDict):
    """The error of a failed attribution."""

    type: Annotated[str, Field(min_length=1)]
    """The name of the exception's class."""
    message: Annotated[str, Field(max_length=1000)]
    """What went wrong and how to mend it."""


class Summary(TypedDict):
    """Verdicts, cited documents and the best sources, or why there are none. Every status has the
    same fields: lists are empty and values null where nothing was attributed. Texts that were too
    long end in an ellipsis; what did not fit at all is counted under omitted."""

    schema_version: SchemaVersion
    status: Literal["complete", "partial", "composite", "pending", "error", "unsupported"]
    """'partial' if the budget, or the limit of judging, left something undone, or one of several
    calls has no attribution or only a part of one; 'composite' if the answer was made of earlier
    answers, which `calls` has: it is attributed to these, these to what was retrieved for them, and
    its sentences cite what the earlier answers cite; 'pending' while the attribution is under way,
    perhaps with the sentences judged so far; 'unsupported' for what cannot be attributed at all,
    such as a model that is not local."""
    run_id: RunId | None
    question: str | None
    """What was asked, where the framework tells, or its beginning."""
    answer: str | None
    """The text that was attributed, or its beginning; null where there is none yet."""
    cited_text: str | None
    """The answer with its citations and remarks, as readers see it; null where there are none yet,
    and where it is too long."""
    error: ErrorDescription | None
    """Why the answer was not attributed; null for other statuses than 'error' and 'unsupported'."""
    start: Index
    """Where the attributed response begins; 0 unless the prompt was given back before it."""
    end: Index
    """Where it ends."""
    offsets: Literal["shown", "answer"]
    """Whose characters `start`, `end` and those of `sentences` are: of the text that the caller was
    given, or of the model's own answer, where something made another text of it."""
    unit: Annotated[str, Field(min_length=1)] | None
    """What scores are measured in: nats, unless the method is a baseline with another unit."""
    sentences: list[SentenceSummary]
    """The first sentences of the response, in order. One that is not in the text that the caller
    was given is an empty interval."""
    trust: Trust | None
    """How many of all judged sentences have which standing, among how many passages; null where
    none has one."""
    documents: list[DocumentSummary]
    """The documents in the order in which they were given; the first ones and the cited ones, if
    they do not all fit."""
    sources: list[SourceSummary]
    """The sources with the highest scores for the whole response, best first. Of a composite, those
    that are cited, in the order of the sentences."""
    notes: Annotated[list[str], Field(max_length=10)]
    """What a reader should know before trusting the scores: the first ten notes."""
    method: str | None
    """Which ablations were asked for."""
    model: str | None
    """The model whose scores these are, without the folder that it was loaded from."""
    basis: Basis | None
    """'cause' if that model gave the answer; 'reader' if another one did, so that the scores say
    which texts support the answer, not what caused it."""
    answered_by: str | None
    """The model that gave an answer that a reader read; null if its name is not known."""
    retokenized: bool | None
    """True if the ids were made from text and need not be those that the model saw or gave."""
    seconds: Annotated[float, Field(ge=0)] | None
    """What the attribution took."""
    calls: list[Summary]
    """Where several calls of a model gave the answer, what each call's own answer is attributed to,
    among the documents in its own prompt; positions are characters of that answer. Of a composite,
    the earlier answers, in the order in which they were given."""
    places: list[tuple[Index, Index]]
    """Per call the characters [start, end) of the answer that it gave; empty where the calls build
    on each other."""
    omitted: Omitted
