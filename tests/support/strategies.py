"""Attributions with any contents that fit together."""

import itertools
from typing import Any, get_args

from hypothesis import strategies as st

from attribot_rag.attribution import Attribution, Marker, Provenance, SourceGroup, Verdict
from attribot_rag.attribution.verdict import Kind, Relation
from attribot_rag.context import Document, DocumentSpan, Occurrence, Source

PROVENANCE = Provenance(
    method="leave_one_out",
    model="tiny",
    dtype="float32",
    device="cpu",
    implementation="packed",
    retokenized=False,
    prompt_tokens=20,
    prefilled_tokens=0,
    scored_tokens=100,
    forward_passes=2,
    seconds=0.5,
)


def source(index: int, *documents: int, text: str = "A fact.") -> Source:
    spans = tuple(DocumentSpan(document, 0, len(text)) for document in documents)
    return Source(index, text, (Occurrence(10 * index, 10 * index + len(text), spans),))


def attribution(
    response: str,
    token_scores: list[list[float] | None],
    *,
    documents: int = 3,
    holders: list[tuple[int, ...]] | None = None,
    **changed: Any,
) -> Attribution:
    """One token per character of the response; source i stands in document i."""
    holders = holders or [(index,) for index in range(len(token_scores))]
    values: dict[str, Any] = {
        "response": response,
        "token_spans": tuple((index, index + 1) for index in range(len(response))),
        "token_log_likelihoods": (-1.0,) * len(response),
        "documents": tuple(Document(f"Document {index}.") for index in range(documents)),
        "not_located": (),
        "sources": tuple(source(index, *held) for index, held in enumerate(holders)),
        "token_scores": tuple(None if row is None else tuple(row) for row in token_scores),
        "exact": (True,) * len(token_scores),
        "notes": (),
        "provenance": PROVENANCE,
    }
    return Attribution(**{**values, **changed})


FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def attributions(draw: st.DrawFn) -> Attribution:
    response = draw(TEXT.filter(bool))
    places = sorted(draw(st.lists(st.integers(0, len(response)), min_size=2, max_size=8)))
    spans = tuple(itertools.pairwise(places))
    num_tokens = len(spans)
    documents = draw(
        st.lists(
            st.builds(
                Document,
                TEXT,
                st.none() | TEXT,
                st.dictionaries(TEXT, JSON, max_size=3),
            ),
            min_size=1,
            max_size=4,
        )
    )
    index = st.integers(0, len(documents) - 1)
    count = st.integers(0, 10_000)
    span = st.builds(DocumentSpan, index, count, count)
    occurrence = st.builds(Occurrence, count, count, st.lists(span, max_size=2).map(tuple))
    held = draw(
        st.lists(
            st.tuples(TEXT, st.lists(occurrence, min_size=1, max_size=3).map(tuple)), max_size=4
        )
    )
    row = st.lists(FINITE, min_size=num_tokens, max_size=num_tokens).map(tuple)
    source_ids = st.lists(st.integers(0, len(held) - 1), max_size=3) if held else st.just([])
    place = st.integers(0, len(response))
    interval = st.tuples(place, place).map(sorted)
    sentences = st.sets(place, max_size=2).map(
        lambda cuts: list(itertools.pairwise(sorted({0, *cuts, len(response)})))
    )
    return Attribution(
        response=response,
        token_spans=spans,
        token_log_likelihoods=draw(row),
        documents=tuple(documents),
        not_located=tuple(draw(st.lists(index, max_size=2))),
        partly_located=draw(st.dictionaries(index, st.floats(0, 1), max_size=2)),
        sources=tuple(Source(i, text, places) for i, (text, places) in enumerate(held)),
        token_scores=tuple(draw(st.none() | row) for _ in held),
        exact=tuple(draw(st.booleans()) for _ in held),
        notes=tuple(draw(st.lists(TEXT, max_size=2))),
        provenance=Provenance(
            method=draw(TEXT),
            model=draw(TEXT),
            dtype=draw(TEXT),
            device=draw(TEXT),
            implementation=draw(TEXT),
            fallback=draw(st.none() | TEXT),
            retokenized=draw(st.booleans()),
            prompt_tokens=draw(count),
            prefilled_tokens=draw(count),
            scored_tokens=draw(count),
            proxy_tokens=draw(count),
            flops=draw(st.floats(0, 1e18)),
            naive_tokens=draw(count),
            forward_passes=draw(count),
            seconds=draw(st.floats(0, 1e6)),
            self_check=draw(st.none() | FINITE),
            options=draw(st.dictionaries(TEXT, st.none() | st.booleans() | FINITE | TEXT)),
            versions=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        ),
        groups=tuple(
            SourceGroup(tuple(draw(source_ids)), draw(row), draw(st.booleans()))
            for _ in range(draw(st.integers(0, 2)))
        ),
        context_reliance=draw(st.none() | row),
        agreement=draw(st.none() | st.floats(0, 1)),
        partial=draw(st.booleans()),
        verdicts=tuple(
            Verdict(
                start=start,
                end=end,
                kind=draw(st.sampled_from(get_args(Kind))),
                source_ids=tuple(draw(source_ids)),
                relation=draw(st.sampled_from(get_args(Relation))),
                effect=draw(st.none() | FINITE),
                reliance=draw(st.none() | FINITE),
                follows=draw(st.none() | count),
            )
            for start, end in draw(st.just([]) | sentences)
        ),
        markers=tuple(
            Marker(
                start=start,
                end=end,
                number=draw(st.integers(-3, 99)),
                document=draw(st.none() | index),
                supported=draw(st.none() | st.booleans()),
            )
            for start, end in draw(st.lists(interval, max_size=2))
        ),
    )
