"""Methods on one answer: shared ablations and clocks."""

import pytest
from experiment.test_experiment import EXAMPLES, OPTIONS
from support.tiny_models import byte_level

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


def test_a_clock_that_cannot_see_the_device_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not count what cuda does"):
        check_clock("cpu", "cuda")
    with pytest.raises(InvalidInput, match="unknown clock 'sun'; choose one of wall, cpu"):
        check_clock("sun", "cpu")
