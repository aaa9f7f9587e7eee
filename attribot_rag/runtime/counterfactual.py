"""What a model would have answered without some documents, for a run that is kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from attribot_rag.attribution import Counterfactual
from attribot_rag.errors import NotRecorded
from attribot_rag.runtime.attributed_run import AttributedRun
from attribot_rag.runtime.service import AttributionService


def answer_without(
    services: Iterable[AttributionService], run: AttributedRun, *documents: int, **generate: Any
) -> Counterfactual:
    """The answer of the model that gave the run's, by `Attributor.answer_without`.

    Raises NotRecorded for a run without attribution, and if none of the services made it, besides
    what that raises.
    """
    if run.attribution is None:
        raise NotRecorded(f"the run {run.run_id} has no attribution: {run.error}")
    for service in services:
        with suppress(NotRecorded):
            return service.attributor.answer_without(run.attribution, *documents, **generate)
    raise NotRecorded(
        f"no answer without documents for the run {run.run_id}: none of the models that are "
        "recorded here gave its whole answer in one call"
    )
