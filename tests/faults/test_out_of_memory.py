"""Memory that runs out at any operation costs an attribution at most, and nothing after it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import unshared
from torch.utils._python_dispatch import TorchDispatchMode

from attribot_rag import Attribution
from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import Answer, AttributedRun, AttributionService

POINTS = 12
ATOL = 1e-3


class FailingAllocation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Memory runs out in the operation number `index` of this thread; -1 counts and fails nothing.

    `count` is the number of operations so far.
    """

    def __init__(self, index: int = -1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.index = index
        self.count = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.count += 1
        if self.count - 1 == self.index:
            raise torch.OutOfMemoryError("out of memory")
        return function(*args, **(kwargs or {}))


@pytest.fixture
def service() -> Iterator[AttributionService]:
    service = AttributionService(unshared())
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
