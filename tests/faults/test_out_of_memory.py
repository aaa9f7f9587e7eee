"""Memory that runs out at any operation costs an attribution at most, and nothing after it."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.faults import FailingAllocation
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import byte_level

from attribot_rag import Attribution
from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import Answer, AttributedRun, AttributionService

POINTS = 12
ATOL = 1e-3


@pytest.fixture
def service() -> Iterator[AttributionService]:
    shared = byte_level()
    model = LocalModel(copy.deepcopy(shared.model), shared.tokenizer)
    service = AttributionService(model)
    yield service
    service.close()


def attributed(service: AttributionService, run_id: str, *, background: bool) -> AttributedRun:
    """The attribution of an answer that is given now."""
    model = service.attributor.language_model
    assert isinstance(model, LocalModel)
    say(model, [rendered(model)], [ANSWER])
    observed = Answer(ANSWER, DOCUMENTS, [QUESTION])
    run = service.attribute(run_id, run_id, observed, background=background)
    return service.store.wait(run.run_id, scaled(60))


def scores(attribution: Attribution | None) -> np.ndarray[Any, Any]:
    assert attribution is not None
    return attribution.matrix.filled(np.nan)


def test_memory_may_run_out_at_every_point_of_an_attribution(service: AttributionService) -> None:
    truth = scores(attributed(service, "first", background=False).attribution)
    model = service.attributor.language_model
    assert isinstance(model, LocalModel)
    observed = Answer(ANSWER, DOCUMENTS, [QUESTION])
    say(model, [rendered(model)], [ANSWER])
    with FailingAllocation() as counting:
        service.attribute("counted", "counted", observed)
    outcomes = []
    for index in np.linspace(0, counting.count - 1, POINTS).astype(int).tolist():
        say(model, [rendered(model)], [ANSWER])
        with FailingAllocation(index) as failing:
            run = service.attribute(f"run {index}", f"root {index}", observed)
        assert failing.count > index
        outcomes.append(run.error is None)
        if run.error is None:
            result = scores(run.attribution)
            finite = ~np.isnan(result)
            np.testing.assert_allclose(result[finite], truth[finite], atol=ATOL)
        else:
            assert isinstance(run.error, ScoringOutOfMemory)
    assert any(outcomes)
    assert not all(outcomes)
    assert service.recorder.generations == ()
    after = attributed(service, "after", background=True)  # in a thread that needs the turn
    np.testing.assert_allclose(scores(after.attribution), truth, atol=ATOL)
