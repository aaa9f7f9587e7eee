"""Summaries that are attached to an answer: of bounded size, plain, after their schema."""

import dataclasses
import datetime
import decimal
import json
import math
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given
from support.attributions import FERRY, ISLAND, PROVENANCE, handmade, verdicts_of
from support.schemas import SUMMARIES
from support.strategies import attributions

from attribot_rag import Attribution, Document
from attribot_rag.attribution import cite
from attribot_rag.result.citations import Shown
from attribot_rag.result.summary import MAX_SUMMARY_BYTES, summarize, without_attribution

RESPONSE = "The ferry is red. It is old. So it is both."
FIRST, SECOND, THIRD = "Ferries are red.", "The ferry is red.", "It is old."


def judged(*verdicts: dict[str, Any], **fields: Any) -> Attribution:
    """One verdict for each sentence, in order."""
    return handmade(
        RESPONSE,
        [FIRST, SECOND, f"{FERRY} {THIRD}"],
        {FIRST: (4.0, 0.0, 0.0), SECOND: (4.5, 0.0, 0.0), THIRD: (0.0, 5.0, 0.0)},
        verdicts=verdicts_of(RESPONSE, *verdicts),
        **fields,
    )


VERDICTS: tuple[dict[str, Any], ...] = (
    {
        **{"kind": "redundant", "relation": "either", "source_ids": (1, 0)},
        **{"effect": 8.123456, "reliance": -0.00001},
    },
    {"kind": "grounded", "source_ids": (2,), "effect": 5.0},
    {"kind": "follows", "follows": 0, "reliance": 1 / 3},
)


def assert_plain(value: Any) -> None:
    """JSON's own types and no subclass of them, nor a number that JSON has not."""
    assert type(value) in (dict, list, str, int, float, bool, type(None))
    if isinstance(value, float):
        assert math.isfinite(value)
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            assert_plain(item)


def checked(attribution: Attribution, start: int = 0) -> dict[str, Any]:
    """The summary, after a check of what every summary promises."""
    summary = summarize(attribution, shown=Shown(start))
    assert len(json.dumps(summary, allow_nan=False).encode()) <= MAX_SUMMARY_BYTES
    assert json.loads(json.dumps(summary)) == summary
    SUMMARIES.validate(summary)
    assert summary["omitted"] == {
        "sources": len(attribution.sources) - len(summary["sources"]),
        "documents": len(attribution.documents) - len(summary["documents"]),
        "sentences": len(cite(attribution)) - len(summary["sentences"]),
        "calls": 0,
    }
    return summary


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


class TestContents:
    def test_a_small_attribution_is_summarized_whole(self) -> None:
        summary = checked(ISLAND)
        assert columns(summary["sentences"], "start", "end", "source_ids", "documents") == [
            (0, 29, [0], [0, 1]),
            (29, 55, [1], [0]),
            (55, 73, [], []),
        ]
        assert columns(summary["documents"], "index", "id", "number", "title", "located_share") == [
            (0, "ferry.txt#2", 1, "", 1.0),
            (1, "festival.md#3", 2, "Lamp Night", 1.0),
            (2, None, None, "", 1.0),
        ]
        assert columns(summary["sources"], "id", "text", "documents", "score") == [
            (0, FERRY, [0, 1], 12.645),
            (1, "A single ticket costs 18 crowns.", [0], 8.5),
            (3, "The museum is open on Saturdays only.", [2], 0.004),
            (2, "Book early.", [1], -0.45),
        ]
        assert columns([summary], "status", "offsets", "unit", "method", "model", "seconds") == [
            ("complete", "shown", "nats", "leave_one_out", "smollm2", 3.209)
        ]
        assert set(summary["omitted"].values()) == {0}

    def test_verdicts(self) -> None:
        summary = checked(judged(*VERDICTS))
        names = ("verdict", "relation", "source_ids", "documents", "effect", "reliance", "follows")
        assert columns(summary["sentences"], *names) == [
            ("redundant", "either", [1, 0], [1, 0], 8.1235, 0.0, None),
            ("grounded", "each", [2], [2], 5.0, None, None),
            ("follows", "each", [], [], None, 0.3333, 0),
        ]
        assert columns(summary["documents"], "index", "number") == [(0, 2), (1, 1), (2, 3)]

    def test_positions_are_those_of_the_text_that_was_shown(self) -> None:
        attribution, start = judged(*VERDICTS), 10_000
        summary = checked(attribution, start)
        shown = "p" * start + RESPONSE
        assert shown[summary["start"] : summary["end"]] == RESPONSE
        for sentence, cited in zip(summary["sentences"], cite(attribution), strict=True):
            piece = shown[sentence["start"] : sentence["end"]]
            assert piece == sentence["text"] == RESPONSE[cited.start : cited.end]
        moved = {**summary, "start": 0, "end": 0, "sentences": []}
        assert moved == {**summarize(attribution), "start": 0, "end": 0, "sentences": []}

    def test_a_document_stands_at_its_index(self) -> None:
        texts = [f"Fact {index} is told." for index in range(6)]
        scores = dict(zip(texts, [(0.1,), (0.0,), (9.0,), None, (0.5,), (8.0,)], strict=True))
        attribution = handmade("Answer.", texts, scores, not_located=(3,), partly_located={5: 0.45})
        documents = checked(attribution)["documents"]
        assert [row["index"] for row in documents] == [0, 1, 2, 3, 4, 5]
        assert [row["number"] for row in documents] == [None, None, 1, None, None, 2]
        assert [row["located"] for row in documents] == [True, True, True, False, True, True]
        assert [row["located_share"] for row in documents] == [1.0, 1.0, 1.0, 0.0, 1.0, 0.45]

    def test_a_partial_result_says_so(self) -> None:
        summary = checked(judged(*VERDICTS, incomplete=True, notes=("The budget ran out.",)))
        assert summary["status"] == "incomplete"
        assert summary["notes"] == ["The budget ran out."]

    def test_sources_without_scores_are_omitted_and_other_units_cite_nothing(self) -> None:
        scores = {"One.": None, "Two.": (9.0,)}
        summary = checked(handmade("Yes.", ["One. Two."], scores, unit="attention"))
        assert summary["unit"] == "attention"
        assert [sentence["source_ids"] for sentence in summary["sentences"]] == [[]]
        assert [(source["id"], source["score"]) for source in summary["sources"]] == [(1, 9.0)]
        assert summary["omitted"]["sources"] == 1


NO_SCALARS = {
    **{"missing": None, "list": [1], "tuple": (1, 2), "nested": {"a": 1}, "bytes": b"x"},
    **{"seen": datetime.date(1648, 10, 24), "price": decimal.Decimal("1.10")},
    **{"vector": np.zeros(3), "float32": np.float32(0.5), "float64": np.float64(0.5)},
    **{"int64": np.int64(7), "text": np.str_("text")},
}


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"score": 0.5, "draft": False, "": "", "far": 2**60, "title": "Ferries"}, None),
        (NO_SCALARS, {}),
        ({"a": float("nan"), "b": float("inf"), "c": -math.inf, "d": 10**5000}, {}),
        ({3: "a", ("b", 1): "c", None: "d"}, {"3": "a", "('b', 1)": "c", "None": "d"}),
        ({"a": "x" * 1000, "k" * 1000: 3}, {"a": "x" * 399 + "…"}),
    ],
    ids=["scalars", "nothing else", "no such numbers", "keys are texts", "long ones"],
)
def test_metadata_are_texts_and_scalars(
    metadata: dict[Any, Any], shown: dict[str, Any] | None
) -> None:
    metadata = {**metadata, "page": 3, "source": "https://example.org/ferry"}
    attribution = handmade("Yes.", [Document(FIRST, "a", metadata)], {FIRST: (9.0,)})
    summary = checked(attribution)
    assert_plain(summary)
    (document,) = summary["documents"]
    kept = {"page": 3, "source": "https://example.org/ferry"}
    assert document["metadata"] == (metadata if shown is None else {**shown, **kept})
    assert document["title"] == str(metadata.get("title", metadata["source"]))
    assert document["url"] == "https://example.org/ferry"


LONG = 100_000
SIGNS = ("x", "条", "\x00", "\ud83d")


def crowded(
    sign: str, num_documents: int, num_sentences: int, length: int, **fields: Any
) -> Attribution:
    """An attribution whose every part is long; each document is cited."""
    sources = [f"{sign * length} {index}." for index in range(num_documents)]
    documents = [
        Document(
            text,
            f"{index} {sign * length}",
            {
                "title": f"{index} {sign * length}",
                "url": f"https://example.org/{sign * length}",
                **{f"{key} {sign * min(length, 300)}": sign * length for key in range(5)},
            },
        )
        for index, text in enumerate(sources)
    ]
    response = "".join(f"Sentence {index}. " for index in range(num_sentences))
    rows: list[list[float]] = [[0.0] * num_sentences for _ in sources]
    for index, row in enumerate(rows):
        row[index % num_sentences] = 5.0 + index
    return handmade(
        response,
        documents,
        dict(zip(sources, rows, strict=True)),
        notes=(sign * length,) * 50,
        provenance=dataclasses.replace(PROVENANCE, method=sign * length, model=sign * length),
        **fields,
    )


class TestSize:
    @pytest.mark.parametrize("sign", SIGNS)
    @pytest.mark.parametrize(
        ("num_documents", "num_sentences", "length"),
        [(1, 1, LONG), (300, 40, 400), (2, 300, 10)],
    )
    def test_any_amount_of_any_text(
        self, sign: str, num_documents: int, num_sentences: int, length: int
    ) -> None:
        attribution = crowded(sign, num_documents, num_sentences, length)
        summary = checked(attribution, start=10**9)
        assert summary["end"] - summary["start"] == len(attribution.response)
        assert len(summary["notes"]) == 10
        named = crowded(sign, num_documents, num_sentences, length, unit=sign * length)
        assert checked(named)["unit"][:10] == sign * 10

    def test_all_of_moderate_length_fits(self) -> None:
        """Sentences and documents of moderate length are all there, with their metadata."""
        texts = [f"Document {index} is {'very ' * 10}long." for index in range(20)]
        documents = [Document(text, str(i), {"page": i}) for i, text in enumerate(texts)]
        rows: list[list[float]] = [[0.0] * 20 for _ in texts]
        for index, row in enumerate(rows):
            row[index] = 5.0
        summary = checked(
            handmade("So it is. " * 20, documents, dict(zip(texts, rows, strict=True)))
        )
        assert set(summary["omitted"].values()) == {0}
        assert [document["metadata"] for document in summary["documents"]] == [
            {"page": i} for i in range(20)
        ]
        assert [source["text"] for source in summary["sources"]] == texts

    def test_cited_documents_are_the_last_to_be_left_out(self) -> None:
        texts = [f"Fact {index} is told." for index in range(200)]
        scores = {text: (9.0,) if index > 190 else (0.0,) for index, text in enumerate(texts)}
        summary = checked(handmade("So it is.", texts, scores))
        indices = {document["index"] for document in summary["documents"]}
        assert len(indices) < 200
        assert set(range(191, 200)) <= indices

    @pytest.mark.parametrize("cited", [range(9), range(51, 60), range(50, 99, 2), range(200)])
    def test_an_index_names_its_document_or_none(self, cited: range) -> None:
        texts = [f"Fact {index} is told." for index in range(200)]
        scores = {text: (9.0,) if index in cited else (0.0,) for index, text in enumerate(texts)}
        summary = checked(handmade("So it is.", texts, scores))
        documents = summary["documents"]
        for index in summary["sentences"][0]["documents"]:
            assert index >= len(documents) or documents[index]["index"] == index

    def test_numbers_stay_those_of_all_citations(self) -> None:
        attribution = crowded("x", 300, 40, 400)
        numbers = cite(attribution).numbers
        assert len(numbers) > 10
        summary = checked(attribution)
        assert summary["documents"]
        for document in summary["documents"]:
            assert document["number"] == numbers.get(document["index"])
        assert any(document["number"] for document in summary["documents"])
        long = crowded("条", 2, 300, 10)
        spans = [(sentence["start"], sentence["end"]) for sentence in checked(long)["sentences"]]
        assert 0 < len(spans) < 300
        assert spans == [(sentence.start, sentence.end) for sentence in cite(long)][: len(spans)]


@given(attributions())
def test_any_attribution_is_summarized(attribution: Attribution) -> None:
    scores = (attribution.score(source.id) for source in attribution.sources)
    assume(all(score is None or math.isfinite(score) for score in scores))
    assert_plain(checked(attribution))


class TestSchema:
    def test_every_status_has_the_same_fields(self) -> None:
        complete, unjudged = summarize(judged(*VERDICTS)), summarize(ISLAND)
        failed = without_attribution("error", error=ValueError("no"), run_id="0199", length=9)
        pending = without_attribution("pending")
        for summary in (
            complete,
            unjudged,
            failed,
            pending,
            without_attribution("not_attributable"),
        ):
            SUMMARIES.validate({**summary, "run_id": "0199"})
            assert list(summary) == list(unjudged)
            assert list(summary["omitted"]) == list(unjudged["omitted"])
            with pytest.raises(jsonschema.ValidationError):
                SUMMARIES.validate({**summary, "status": "done"})
        assert failed["error"] == {"type": "ValueError", "message": "no"}
        assert (failed["run_id"], failed["start"], failed["end"]) == ("0199", 0, 9)
        fields = [[*sentence] for whole in (unjudged, complete) for sentence in whole["sentences"]]
        assert fields == [fields[0]] * len(fields)

    @pytest.mark.parametrize("part", ["sentences", "documents", "sources"])
    def test_nothing_is_missing_and_nothing_more(self, part: str) -> None:
        complete = summarize(judged(*VERDICTS))
        for name, value in list(complete[part][0].items()):
            del complete[part][0][name]
            with pytest.raises(jsonschema.ValidationError):
                SUMMARIES.validate(complete)
            complete[part][0][name] = value
        complete[part][0]["more"] = 3
        with pytest.raises(jsonschema.ValidationError):
            SUMMARIES.validate(complete)
