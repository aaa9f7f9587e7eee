from hypothesis import given
from support.attributions import attribution
from support.strategies import attributions

from attribot_rag.attribution import Attribution, Citations, CitedSentence, Verdict, cite
from attribot_rag.result.verdict import Relation

RESPONSE = "One fact. Two facts."
FIRST, SECOND = [1.0] * 10 + [0.0] * 10, [0.0] * 10 + [1.0] * 10
NOTHING = [0.0] * 20


def test_each_sentence_cites_the_sources_that_support_it() -> None:
    citations = cite(attribution(RESPONSE, [SECOND, NOTHING, FIRST]))
    assert [(sentence.start, sentence.end) for sentence in citations.sentences] == [
        (0, 10),
        (10, 20),
    ]
    assert [sentence.source_ids for sentence in citations.sentences] == [(2,), (0,)]
    assert citations.numbers == {2: 1, 0: 2}
    assert isinstance(citations, Citations)
    assert tuple(citations) == citations.sentences
    assert all(isinstance(sentence, CitedSentence) for sentence in citations)
    assert len(citations) == 2
    citations = cite(attribution(RESPONSE, [FIRST, SECOND], holders=[(2, 1), (0,)]))
    assert citations.numbers == {1: 1, 2: 2, 0: 3}  # all documents that hold a source
    assert [(sentence.relation, sentence.verdict) for sentence in citations] == [("each", None)] * 2


def test_weak_sources_are_not_cited() -> None:
    """Those near the best are; none that speaks against it or was not scored."""
    small, against = [0.09] * 20, [-3.0] * 20
    citations = cite(attribution(RESPONSE, [small, against, None]))
    assert [sentence.source_ids for sentence in citations.sentences] == [(), ()]
    assert citations.numbers == {}
    generous = cite(attribution(RESPONSE, [small, NOTHING]), min_score=0.5)
    assert [sentence.source_ids for sentence in generous.sentences] == [(0,), (0,)]
    scores: list[list[float] | None] = [[1.0] * 20, [0.6] * 20, [0.4] * 20]
    citations = cite(attribution(RESPONSE, scores))
    assert [sentence.source_ids for sentence in citations.sentences] == [(0, 1), (0, 1)]
    assert citations.numbers == {0: 1, 1: 2}
    everything = cite(attribution(RESPONSE, scores), min_share=0.3)
    assert everything.sentences[0].source_ids == (0, 1, 2)


@given(attributions())
def test_sentences_cover_the_response_and_cite_by_number(result: Attribution) -> None:
    citations = cite(result)
    edges = [(sentence.start, sentence.end) for sentence in citations.sentences]
    assert "".join(result.response[start:end] for start, end in edges) == result.response
    cited = {source for sentence in citations.sentences for source in sentence.source_ids}
    documents = {document for source in cited for document in result.sources[source].documents}
    assert set(citations.numbers) == documents
    has_markers = any(marker.document is not None for marker in result.markers)
    if has_markers and result.numbering == "by_marker":
        assert citations.numbers == {
            index: result.prompt_numbers.get(index, index + 1) for index in documents
        }
    else:
        assert sorted(citations.numbers.values()) == list(range(1, len(documents) + 1))


def judged(*verdicts: Verdict) -> Citations:
    return cite(attribution(RESPONSE, [FIRST, SECOND, NOTHING], verdicts=verdicts))


def test_verdicts_decide_which_sources_are_cited() -> None:
    unsupported = Verdict(start=0, end=10, kind="unsupported")
    grounded = Verdict(start=10, end=20, kind="grounded", source_ids=(2, 0))
    result = judged(unsupported, grounded)
    assert [(sentence.start, sentence.end, sentence.source_ids) for sentence in result] == [
        (0, 10, ()),
        (10, 20, (2, 0)),
    ]
    assert [sentence.verdict for sentence in result] == [unsupported, grounded]
    assert result.numbers == {2: 1, 0: 2}


def test_a_cited_sentence_keeps_the_relation_of_its_sources() -> None:
    relations: tuple[Relation, ...] = ("each", "either", "together")
    for relation in relations:
        (sentence,) = judged(
            Verdict(start=0, end=20, kind="redundant", source_ids=(0, 1), relation=relation)
        )
        assert sentence.relation == relation
        assert sentence.source_ids == (0, 1)
