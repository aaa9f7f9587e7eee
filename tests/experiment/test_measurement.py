"""Methods on one answer: shared ablations and clocks."""

import numpy as np
import pytest
from experiment.test_experiment import EXAMPLES, OPTIONS
from support.tiny_models import byte_level

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput
from attribot_rag.scoring import LocalBackend
from benchmarks.experiment.baselines import ContextCite
from benchmarks.experiment.generation import GeneratedAnswer, answer_question, prepare
from benchmarks.experiment.measurement import Measurement
from benchmarks.experiment.setting import check_clock, setting

MODEL = byte_level()


@pytest.fixture(scope="module")
def answered() -> GeneratedAnswer:
    answer = answer_question(prepare(EXAMPLES[2], MODEL, OPTIONS.template, OPTIONS.max_new_tokens))
    assert answer is not None
    return answer


def measuring(answered: GeneratedAnswer, clock: str = "wall") -> Measurement:
    here = setting(MODEL, clock)
    record = answered.record(here, OPTIONS.num_random)
    return Measurement(answered, record, LocalBackend(MODEL.model), here)


def test_shared_ablations_give_the_scores_of_separate_ones(answered: GeneratedAnswer) -> None:
    together = measuring(answered)
    for count in (4, 12, 12, 8, 16):
        name = f"ContextCite, {count} ablations"
        shared = together.run(name, ContextCite(count))
        alone = measuring(answered).run(name, ContextCite(count))
        assert shared.scores == pytest.approx(alone.scores, abs=1e-3)
        assert shared.expected_tokens == alone.expected_tokens
        row = answered.generation.response_ids  # the full prompt's is scored in every part
        assert 0 <= shared.tokens - alone.tokens <= 4 * len(row)


def test_a_remembered_ablation_costs_nothing_and_stays_the_same(answered: GeneratedAnswer) -> None:
    """It is remembered for one prompt only, and a masked one is never taken for an exact one."""
    backend = LocalBackend(MODEL.model)
    scorer, plain = answered.scorer(backend), answered.scorer(backend)
    ablations = [Ablation.of(0), Ablation.of(1, 2), Ablation.of(0)]
    first = scorer.score(ablations)
    tokens = scorer.usage.scored_tokens
    again = scorer.score(ablations[::-1])
    assert scorer.usage.scored_tokens == tokens
    np.testing.assert_allclose(first.ablated, plain.score(ablations).ablated, atol=1e-4)
    np.testing.assert_array_equal(again.ablated, first.ablated[::-1])
    assert again.in_step == first.in_step[::-1]
    assert scorer.score([]).ablated.shape == (0, len(answered.generation.response_ids))
    masked = scorer.score(ablations[:1], recompute="question")
    assert np.abs(first.ablated[:1] - masked.ablated).max() > 1e-6
    assert masked.in_step == (False,)
    rebased, expected = scorer.rebased([0, 1]), plain.rebased([0, 1])
    assert rebased is not None and expected is not None
    scored, truth = (shorter.score(ablations[:1]).ablated for shorter in (rebased, expected))
    np.testing.assert_allclose(scored, truth, atol=1e-3)


def test_a_clock_that_cannot_see_the_device_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not count what cuda does"):
        check_clock("cpu", "cuda")
    with pytest.raises(InvalidInput, match="unknown clock 'sun'; choose one of wall, cpu"):
        check_clock("sun", "cpu")
