"""Options by name and whole, at every entrance; mypy reads this file for misspelt names.

Where mypy has to find a mistake, a comment says so; mypy rejects a comment without a mistake.
"""

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import byte_level

from attribot_rag import Attributor, AttributorOptions, Budget, Options
from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    RunOptions,
    RunStore,
    ServiceOptions,
    ServiceRegistry,
)

EXACT = Options(method="leave_one_out", verdicts=None, progress=False)


@pytest.mark.parametrize(
    ("options", "by_name"), [(Options, AttributorOptions), (RunOptions, ServiceOptions)]
)
def test_names_and_types_are_the_same_by_name_and_whole(options: Any, by_name: Any) -> None:
    hints = get_type_hints(by_name)
    assert hints.pop("options") == Options | None
    assert hints == get_type_hints(options)


def test_whole_options_are_those_of_the_names() -> None:
    model = byte_level()
    prompt = rendered(model)
    named = Attributor(model, method="leave_one_out", verdicts=None, progress=False)
    truth = named.attribute(prompt, ANSWER, DOCUMENTS)
    whole = Attributor(model, options=EXACT).attribute(prompt, ANSWER, DOCUMENTS)
    assert whole.token_scores == truth.token_scores
    assert whole.provenance.method == "leave_one_out"
    registry = ServiceRegistry(RunStore(), options=EXACT)
    services = [AttributionService(model, options=EXACT), registry.service_for(model)]
    for index, service in enumerate(services):
        with service.recording():
            say(model, [prompt], [ANSWER])
            run = service.attribute(str(index), "root", Answer(ANSWER, DOCUMENTS, [QUESTION]))
        assert run.attribution is not None
        assert run.attribution.token_scores == truth.token_scores
        service.close()


def test_an_option_by_name_goes_before_whole_options() -> None:
    budget = Budget(tokens=7)
    options = RunOptions.of("it", {"options": EXACT, "budget": budget, "mode": "background"})
    assert options == RunOptions(**{**vars(EXACT), "budget": budget}, mode="background")


async def told(run: AttributedRun) -> None:
    """A coroutine function, which nobody would await."""


MEANT = r"no option 'metod'; did you mean 'method'\?"


@pytest.mark.parametrize(
    ("making", "kind", "message"),
    [
        (lambda: Attributor(byte_level(), metod="auto"), UnknownOption, MEANT),  # type: ignore[call-arg]
        (lambda: ServiceRegistry(RunStore(), metod="auto"), UnknownOption, MEANT),  # type: ignore[call-arg]
        (lambda: Attributor(byte_level(), options="auto"), InvalidInput, "options='auto'; pass"),  # type: ignore[arg-type]
        (lambda: RunOptions(mode="on"), InvalidInput, "mode='on'; choose"),  # type: ignore[arg-type]
        (lambda: RunOptions(on_result=told), InvalidInput, "on_result is a coroutine function"),
        (lambda: RunOptions(max_results=-1), InvalidInput, "max_results=-1; use at least 1"),
    ],
)
def test_unknown_options_and_values_are_refused(
    making: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        making()
