"""Attributions with any contents that fit together."""

import itertools
from dataclasses import replace
from functools import cache
from typing import get_args

from hypothesis import strategies as st

from attribot_rag.attribution import (
    Attribution,
    Check,
    Marker,
    Numbering,
    Provenance,
    SourceGroup,
    Verdict,
)
from attribot_rag.context import Document, DocumentSpan, Occurrence, Source
from attribot_rag.result.verdict import Kind, Relation

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
COUNT = st.integers(0, 10_000)
RESPONSE = TEXT.filter(bool)
DOCUMENTS = st.lists(
    st.builds(Document, TEXT, st.none() | TEXT, st.dictionaries(TEXT, JSON, max_size=3)),
    min_size=1,
    max_size=4,
)
NOTES = st.lists(TEXT, max_size=2).map(tuple)
_NAMES = ("method", "model", "dtype", "device", "implementation")
_COUNTS = (
    *("prompt_tokens", "prefilled_tokens", "scored_tokens", "proxy_tokens", "naive_tokens"),
    "forward_passes",
)
PROVENANCES = st.builds(
    Provenance,
    **dict.fromkeys(_NAMES, TEXT),
    **dict.fromkeys(_COUNTS, COUNT),
    fallback=st.none() | TEXT,
    retokenized=st.booleans(),
    flops=st.floats(0, 1e18),
    seconds=st.floats(0, 1e6),
    self_check=st.none() | FINITE,
    options=st.dictionaries(TEXT, st.none() | st.booleans() | FINITE | TEXT, max_size=3),
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
)


@cache
def _indices(length: int) -> st.SearchStrategy[int]:
    return st.integers(0, length - 1)


@cache
def _some(length: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Indices into a sequence of this length, each as often as it comes."""
    return st.lists(_indices(length), max_size=most).map(tuple) if length else st.just(())


@cache
def _rows(length: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.lists(FINITE, min_size=length, max_size=length).map(tuple)


@cache
def _source_texts(documents: int) -> st.SearchStrategy[list[tuple[str, tuple[Occurrence, ...]]]]:
    """Texts of sources with where they occur."""
    span = st.builds(DocumentSpan, _indices(documents), COUNT, COUNT)
    occurrence = st.builds(Occurrence, COUNT, COUNT, st.lists(span, max_size=2).map(tuple))
    occurrences = st.lists(occurrence, min_size=1, max_size=3).map(tuple)
    return st.lists(st.tuples(TEXT, occurrences), max_size=4)


@cache
def _checks(length: int, num_sources: int) -> st.SearchStrategy[Check]:
    return st.builds(
        lambda places, **fields: Check(start=min(places), end=max(places), **fields),
        st.tuples(st.integers(0, length), st.integers(0, length)),
        kind=st.sampled_from(("number", "contradiction")) | TEXT,
        value=TEXT,
        source_value=st.none() | TEXT,
        source=st.none() | _indices(num_sources) if num_sources else st.none(),
        message=st.none() | TEXT,
    )


@cache
def _verdicts(length: int, num_sources: int) -> st.SearchStrategy[tuple[Verdict, ...]]:
    """Of all sentences of a response of this length, or of none."""
    kinds = st.builds(
        Verdict,
        start=st.just(0),
        end=st.just(length),
        kind=st.sampled_from(get_args(Kind)),
        source_ids=_some(num_sources, 3),
        relation=st.sampled_from(get_args(Relation)),
        effect=st.none() | FINITE,
        reliance=st.none() | FINITE,
        follows=st.none() | COUNT,
        checks=st.lists(_checks(length, num_sources), max_size=2).map(tuple),
    )
    cuts = st.sets(st.integers(0, length), max_size=2)

    def at(borders: list[int]) -> st.SearchStrategy[tuple[Verdict, ...]]:
        spans = list(itertools.pairwise(borders))
        several = st.lists(kinds, min_size=len(spans), max_size=len(spans))
        return several.map(
            lambda verdicts: tuple(
                replace(verdict, start=start, end=end, follows=_earlier(verdict.follows, index))
                for index, (verdict, (start, end)) in enumerate(zip(verdicts, spans, strict=True))
            )
        )

    return st.just(()) | cuts.map(lambda places: sorted({0, *places, length})).flatmap(at)


def _earlier(number: int | None, index: int) -> int | None:
    """The index of an earlier sentence than this one, if there is any."""
    return None if number is None or not index else number % index


@cache
def _markers(length: int, documents: int) -> st.SearchStrategy[tuple[Marker, ...]]:
    place = st.integers(0, length)
    return st.lists(
        st.builds(
            lambda places, **fields: Marker(start=min(places), end=max(places), **fields),
            st.tuples(place, place),
            label=st.sampled_from(["", "2", "lock.pdf", "[a]\n|b"]),
            number=st.none() | st.integers(-3, 99),
            document=st.none() | _indices(documents),
            supported=st.none() | st.booleans(),
        ),
        max_size=2,
    ).map(tuple)


def _permuted(documents: int) -> st.SearchStrategy[dict[int, int]]:
    numbers = st.permutations(range(1, documents + 1))
    return numbers.map(lambda order: dict(enumerate(order)))


@st.composite
def attributions(draw: st.DrawFn) -> Attribution:
    response = draw(RESPONSE)
    places = sorted(draw(st.lists(st.integers(0, len(response)), min_size=2, max_size=8)))
    spans = tuple(itertools.pairwise(places))
    documents = draw(DOCUMENTS)
    sources = draw(_source_texts(len(documents)))
    row = _rows(len(spans))
    groups = st.builds(SourceGroup, _some(len(sources), 3), row, st.booleans())
    return Attribution(
        response=response,
        token_spans=spans,
        token_log_likelihoods=draw(row),
        documents=tuple(documents),
        not_located=draw(_some(len(documents), 2)),
        partly_located=draw(st.dictionaries(_indices(len(documents)), st.floats(0, 1), max_size=2)),
        prompt_numbers=draw(st.just({}) | _permuted(len(documents))),
        prompt_names=draw(
            st.dictionaries(_indices(len(documents)), st.text(max_size=9), max_size=2)
        ),
        sources=tuple(Source(i, text, places) for i, (text, places) in enumerate(sources)),
        token_scores=tuple(draw(st.none() | row) for _ in sources),
        exact=tuple(draw(st.booleans()) for _ in sources),
        notes=draw(NOTES),
        provenance=draw(PROVENANCES),
        groups=tuple(draw(st.lists(groups, max_size=2))),
        context_reliance=draw(st.none() | row),
        incomplete=draw(st.booleans()),
        verdicts=draw(_verdicts(len(response), len(sources))),
        markers=draw(_markers(len(response), len(documents))),
        numbering=draw(st.sampled_from(get_args(Numbering))),
    )
