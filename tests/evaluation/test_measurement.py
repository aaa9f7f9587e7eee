"""Methods on one answer: shared ablations and clocks."""

import time

import numpy as np
import pytest
from evaluation.test_experiment import EXAMPLES, OPTIONS
from support.tiny_models import byte_level

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.generation import GeneratedAnswer, answer_question, prepare
from attribot_rag.evaluation.measurement import CachedScorer, Measurement
from attribot_rag.evaluation.setting import check_clock, setting
from attribot_rag.methods import LeaveOneOut, Masked
from attribot_rag.methods.baselines import ContextCite
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Scorer, ScoringModels


@pytest.fixture(scope="module")
def language_model() -> LanguageModel:
    return byte_level()


@pytest.fixture(scope="module")
def answered(language_model: LanguageModel) -> GeneratedAnswer:
    options = (OPTIONS.template, OPTIONS.max_new_tokens)
    found = answer_question(prepare(EXAMPLES[2], language_model, *options))
    assert found is not None
    return found


def measuring(
    answered: GeneratedAnswer, language_model: LanguageModel, clock: str = "wall"
) -> Measurement:
    here = setting(language_model, clock)
    models = ScoringModels(language_model.model)
    return Measurement(answered, answered.record(here, OPTIONS.num_random), models, here)


def test_shared_ablations_give_what_separate_ones_do(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    together = measuring(answered, language_model)
    for count in (4, 12, 12, 8, 16):
        name = f"ContextCite, {count} ablations"
        shared = together.run(name, ContextCite(count))
        alone = measuring(answered, language_model).run(name, ContextCite(count))
        assert shared.scores == pytest.approx(alone.scores, abs=1e-3)
        assert shared.expected_tokens == alone.expected_tokens
        row = answered.generation.response_ids  # the full prompt's is scored in every part
        assert 0 <= shared.tokens - alone.tokens <= 4 * len(row)


def test_what_is_remembered_is_of_one_prompt_only(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    models = ScoringModels(language_model.model)
    remembering = answered.scorer(models, CachedScorer)
    one = Ablation.of(0)
    remembering.score([one])
    rebased = remembering.rebased([0, 1])
    plain = answered.scorer(models, Scorer).rebased([0, 1])
    assert rebased is not None
    assert plain is not None
    np.testing.assert_allclose(rebased.score([one]).ablated, plain.score([one]).ablated, atol=1e-3)


def test_more_ablations_take_the_time_of_fewer_too(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    together = measuring(answered, language_model)
    few, more = (together.run(f"{count}", ContextCite(count)) for count in (4, 64))
    assert 0 < few.seconds < more.seconds
    assert few.tokens < more.tokens


def test_another_sampling_shares_nothing(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    together = measuring(answered, language_model)
    for method in (ContextCite(8), ContextCite(8, seed=1), ContextCite(8, keep=0.8)):
        alone = measuring(answered, language_model).run("one", method)
        assert together.run("one", method).tokens == alone.tokens


def test_a_remembered_ablation_costs_nothing_and_stays_the_same(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    models = ScoringModels(language_model.model)
    scorer = answered.scorer(models, CachedScorer)
    plain = answered.scorer(models, Scorer)
    ablations = [Ablation.of(0), Ablation.of(1, 2), Ablation.of(0)]
    first = scorer.score(ablations)
    tokens = scorer.usage.scored_tokens
    again = scorer.score(ablations[::-1])
    assert scorer.usage.scored_tokens == tokens
    np.testing.assert_allclose(first.ablated, plain.score(ablations).ablated, atol=1e-4)
    np.testing.assert_array_equal(again.ablated, first.ablated[::-1])
    assert again.in_step == first.in_step[::-1]
    assert scorer.score([]).ablated.shape == (0, len(answered.generation.response_ids))


def test_masked_ablations_are_never_taken_for_exact_ones(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    scorer = answered.scorer(ScoringModels(language_model.model), CachedScorer)
    exact = scorer.score([Ablation.of(0)])
    masked = scorer.score([Ablation.of(0)], recompute="question")
    assert np.abs(exact.ablated - masked.ablated).max() > 1e-6
    assert masked.in_step == (False,)


def test_the_processor_s_clock_does_not_count_waiting(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    class Waiting(LeaveOneOut):
        def run(self, scorer):  # type: ignore[no-untyped-def]
            time.sleep(1)
            return super().run(scorer)

    seconds = {
        clock: measuring(answered, language_model, clock).run("one", Waiting())
        for clock in ("wall", "cpu")
    }
    assert seconds["wall"].seconds > 1
    assert seconds["cpu"].clock == "cpu"
    assert seconds["cpu"].seconds < seconds["wall"].seconds


def test_a_clock_that_cannot_see_the_device_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not count what cuda does"):
        check_clock("cpu", "cuda")
    with pytest.raises(InvalidInput, match="unknown clock 'sun'; choose one of wall, cpu"):
        check_clock("sun", "cpu")


def test_a_clock_is_kept_with_every_figure(
    answered: GeneratedAnswer, language_model: LanguageModel
) -> None:
    on_processor = measuring(answered, language_model, "cpu")
    assert on_processor.record.clock == "cpu"
    assert on_processor.run("masked", Masked()).clock == "cpu"
