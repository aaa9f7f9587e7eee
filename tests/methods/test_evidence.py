"""The rows of one answer: what several searches lack is scored in one pass."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.scorers import scorer

from attribot_rag.methods.evidence import Evidence, PartEvidence, Search
from attribot_rag.scoring import Request, Scorer
from attribot_rag.scoring.row import Row, make_row


def evidence_of(pass_tokens: int = 0) -> PartEvidence:
    target = scorer(pass_tokens=pass_tokens, token_budget=60_000)
    reliance = target.score([target.context.without_documents]).changes[0]
    assert reliance is not None
    return Evidence(target, reliance).of_whole_answer


def passes(target: Scorer) -> int:
    return target.usage.forward_passes


def asking(*steps: Sequence[Request]) -> Search[int]:
    yield from steps
    return len(steps)


def test_searches_advance_to_missing_rows_before_anything_is_scored() -> None:
    evidence = evidence_of()
    known, first, second = (evidence.request_without([unit]) for unit in range(3))
    evidence.answer.fetch([known])
    before = passes(evidence.scorer)
    assert evidence.answer.in_rounds([asking([known], [first], [known]), asking([second], [])]) == [
        3,
        2,
    ]
    assert passes(evidence.scorer) == before + 1
    assert None not in (evidence.loss_without([1]), evidence.loss_without([2]))


def row_tokens() -> int:
    """The tokens of a row without a source."""
    evidence = evidence_of()
    before = evidence.scorer.usage.scored_tokens
    evidence.answer.fetch([evidence.request_without([0])])
    return evidence.scorer.usage.scored_tokens - before


def scored_beside(evidence: PartEvidence) -> list[bool]:
    """Whether each of the next five sources was left out in the pass of the first."""
    before = passes(evidence.scorer)
    evidence.answer.fetch([evidence.request_without([0])])
    assert passes(evidence.scorer) == before + 1
    return [evidence.loss_without([unit]) is not None for unit in range(1, 6)]


def test_prefetched_rows_wait_for_the_next_pass_and_the_latest_come_first() -> None:
    evidence = evidence_of(pass_tokens=4 * row_tokens())
    evidence.prefetch.add(evidence.masked_requests_without([[1], [2]]))
    evidence.answer.fetch([])
    evidence.prefetch.add(evidence.masked_requests_without([[3], [4]]))
    assert not any(evidence.loss_without([unit]) for unit in range(1, 6))
    assert scored_beside(evidence) == [True, False, True, True, False]


@pytest.mark.parametrize("room", [0, 2, 4])
def test_prefetched_rows_fill_a_pass_and_no_more(room: int) -> None:
    evidence = evidence_of(pass_tokens=row_tokens() * (1 + room))
    evidence.prefetch.add(evidence.masked_requests_without([[unit] for unit in range(1, 6)]))
    assert scored_beside(evidence) == [True] * room + [False] * (5 - room)


def test_no_row_is_generated_if_only_tokens_cost_time() -> None:
    evidence = evidence_of()
    rows = iter([evidence.request_without([1])])
    evidence.prefetch.add(rows)
    evidence.answer.fetch([evidence.request_without([0])])
    assert next(rows) == evidence.request_without([1])


@pytest.mark.parametrize("room", [0, 2, 4])
def test_a_row_is_made_once(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    evidence, made = evidence_of(pass_tokens=row_tokens() * (1 + room)), list[Request]()

    def counted(request: Request, *arguments: Any) -> Row:
        made.append(request)
        return make_row(request, *arguments)

    monkeypatch.setattr("attribot_rag.scoring.scorer.make_row", counted)
    evidence.prefetch.add(evidence.masked_requests_without([unit] for unit in range(1, 5)))
    evidence.answer.fetch([evidence.request_without([0])])
    assert made == [evidence.request_without([unit]) for unit in range(1 + room)]
