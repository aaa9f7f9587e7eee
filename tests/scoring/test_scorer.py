"""The ablate-and-score loop: budgets, order, duplicates, memory, self-check."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.implementations import plain_scores
from support.scorers import backend_of
from support.scorers import scorer as scorer_of
from support.tiny_models import byte_level

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput, ScoringFailed, ScoringOutOfMemory
from attribot_rag.methods import LeaveOneOut
from attribot_rag.scoring import LogLikelihoods, Progress, Scorer
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.row import Row

LANGUAGE_MODEL = byte_level()
DOCUMENTS = (
    "The treaty was signed in the town hall. The river was closed for two winters. "
    "The merchants asked for one thing only.",
    "The first ships came up the river with salt. The town hall burned down in 1683.",
    "The river was closed for two winters. Today the room is a museum. Visitors can see the seals.",
)
SENTENCES = 7
IMPLEMENTATIONS = ("packed", "cropped", "reference")


def make_scorer(
    documents: Sequence[str] = DOCUMENTS,
    response: str = "The treaty was signed in the town hall.",
    **options: Any,
) -> Scorer:
    prompt = [{"role": "user", "content": "\n\n".join(documents) + "\n\nQuestion: who?"}]
    return scorer_of(documents, response, prompt=prompt, **options)


class ProgressRecord(Progress):
    """Keeps the counts that a progress bar gets."""

    def __init__(self) -> None:
        self.expected: list[int] = []
        self.advanced: list[int] = []

    def expect(self, count: int) -> None:
        self.expected.append(count)

    def advance(self, count: int) -> None:
        self.advanced.append(count)


def every_source(scorer: Scorer) -> LogLikelihoods:
    return scorer.score([Ablation.of(source.id) for source in scorer.context.sources])


@pytest.fixture(scope="module")
def truth() -> LogLikelihoods:
    return every_source(make_scorer(implementation="reference"))


def test_there_is_something_to_compare(truth: LogLikelihoods) -> None:
    assert truth.ablated.shape == (SENTENCES, len(truth.full))
    effects = np.abs(truth.full - truth.ablated).max(axis=1)
    assert (effects > 1e-2).all()


@given(budget=st.integers(1, 5000), implementation=st.sampled_from(IMPLEMENTATIONS))
@settings(max_examples=25)
def test_any_budget_gives_the_same_scores(
    truth: LogLikelihoods, budget: int, implementation: str
) -> None:
    scored = every_source(make_scorer(implementation=implementation, token_budget=budget))
    assert np.allclose(scored.full, truth.full, atol=1e-4)
    assert np.allclose(scored.ablated, truth.ablated, atol=1e-4)


@given(
    ablations=st.lists(
        st.sets(st.integers(0, SENTENCES - 1), max_size=SENTENCES), min_size=1, max_size=6
    ),
    implementation=st.sampled_from(IMPLEMENTATIONS),
)
@settings(max_examples=25)
def test_any_ablation_equals_scoring_the_prompt_without_that_text(
    ablations: list[set[int]], implementation: str
) -> None:
    scorer = make_scorer(implementation=implementation)
    scored = scorer.score([Ablation.of(*ablation) for ablation in ablations])
    for ablation, log_likelihoods in zip(ablations, scored.ablated, strict=True):
        text = scorer.context.prompt.text
        for source_id in ablation:
            for occurrence in scorer.context.sources[source_id].occurrences:
                gap = "\0" * (occurrence.end - occurrence.start)
                text = text[: occurrence.start] + gap + text[occurrence.end :]
        for start, end in scorer.context.regions:
            kept = text[start:end].rstrip("\0")
            if len(kept) < end - start:
                kept = kept.rstrip(" \0")
            text = text[:start] + kept + "\0" * (end - start - len(kept)) + text[end:]
        ids = LANGUAGE_MODEL.encode(text.replace("\0", ""), special=True)
        expected = plain_scores(LANGUAGE_MODEL.model, ids, scorer.generation.response_ids).numpy()
        assert np.allclose(log_likelihoods, expected, atol=1e-4)


def test_tokens_are_counted(truth: LogLikelihoods) -> None:
    for implementation in IMPLEMENTATIONS:
        scorer = make_scorer(implementation=implementation)
        every_source(scorer)
        prompt, response = scorer.generation.prompt_ids, scorer.generation.response_ids
        ablations = map(Ablation.of, range(SENTENCES))
        ablated = [scorer.context.ablate(ablation, LANGUAGE_MODEL) for ablation in ablations]
        shared = [prompt.num_shared for prompt in ablated]
        lengths = [len(prompt.ids) for prompt in ablated]
        if implementation == "reference":
            expected = sum(lengths) + len(prompt) + (SENTENCES + 1) * (len(response) - 1)
            assert scorer.usage.prefilled_tokens == 0
        else:
            new = [length - start for length, start in zip(lengths, shared, strict=True)]
            expected = sum(new) + 1 + (SENTENCES + 1) * (len(response) - 1)
            assert scorer.usage.prefilled_tokens == len(prompt) - 1
        assert scorer.usage.scored_tokens == expected
        assert scorer.usage.seconds > 0


def test_progress_counts_every_ablation() -> None:
    scorer = make_scorer(token_budget=300)
    progress = scorer.session.progress = ProgressRecord()
    every_source(scorer)
    assert progress.expected == [SENTENCES]
    assert sum(progress.advanced) == SENTENCES
    assert len(progress.advanced) > 1
    scorer.score([Ablation.of(0, 1)])
    assert progress.expected == [SENTENCES, 1]
    assert sum(progress.advanced) == SENTENCES + 1


class Scarce(Packed):
    """Packed on a device that has room for few tokens."""

    room = 0

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        if sum(row.num_new for row in rows) > self.room:
            raise torch.OutOfMemoryError("injected")
        return super().log_likelihoods(rows)


def with_implementation(scorer: Scorer, kind: type[Packed], **attributes: Any) -> Scorer:
    prefix = backend_of(scorer.language_model).make(kind, scorer.generation)
    vars(prefix).update(attributes)
    scorer._engine.prefix = prefix
    return scorer


def test_running_out_of_memory_halves_the_budget_and_goes_on(truth: LogLikelihoods) -> None:
    scorer = with_implementation(make_scorer(token_budget=100_000), Scarce, room=300)
    progress = scorer.session.progress = ProgressRecord()
    scored = every_source(scorer)
    assert np.allclose(scored.ablated, truth.ablated, atol=1e-4)
    assert sum(progress.advanced) == SENTENCES
    assert scorer._engine.batching.budget < 100_000
    assert scorer.usage.forward_passes > 1


def test_one_ablation_that_does_not_fit_says_what_to_do() -> None:
    with pytest.raises(ScoringOutOfMemory, match="shorter context"):
        every_source(with_implementation(make_scorer(), Scarce, room=3))
    with pytest.raises(RuntimeError, match="shapes"):
        every_source(with_implementation(make_scorer(), Broken))


class Wrong(Packed):
    """Gives numbers that are not the reference's."""

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        return super().log_likelihoods(rows) * 1.01


class Broken(Packed):
    """Fails, and not for memory."""

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        raise RuntimeError("shapes do not match")


def test_the_self_check_compares_with_the_reference() -> None:
    scorer = make_scorer(self_check=True)
    every_source(scorer)
    assert scorer.session.largest_difference is not None
    assert scorer.session.largest_difference < 1e-4
    with pytest.raises(ScoringFailed, match="reference"):
        every_source(with_implementation(make_scorer(self_check=True), Wrong))


def test_unknown_options_name_the_valid_ones() -> None:
    with pytest.raises(InvalidInput, match="auto, packed, cropped, reference"):
        make_scorer(implementation="fastest")
    with pytest.raises(InvalidInput, match="token_budget=0"):
        make_scorer(token_budget=0)
    with pytest.raises(InvalidInput, match="pass_tokens=-1"):
        make_scorer(pass_tokens=-1)


def test_leave_one_out_is_the_difference_to_the_full_prompt(truth: LogLikelihoods) -> None:
    scores = LeaveOneOut().run(make_scorer())
    assert None not in scores.token_scores
    actual = np.array(scores.token_scores, dtype=float)
    assert np.allclose(actual, truth.full - truth.ablated, atol=1e-4)
    assert scores.token_log_likelihoods is not None
    assert np.allclose(scores.token_log_likelihoods, truth.full, atol=1e-4)
    assert all(scores.exact)
