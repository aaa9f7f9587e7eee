"""Answers of a tiny model, attributed as an integration with a framework has it done."""

import gc
import itertools
import json
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from recording.test_recorder import running
from support.patience import scaled
from support.schemas import SUMMARIES
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, messages, rendered, say
from support.stubborn_methods import Broken
from support.summaries import attribution_of
from support.tiny_models import unshared

from attribot_rag.errors import (
    AttributionCancelled,
    DocumentsNotLocated,
    InvalidInput,
    NotRecorded,
    QueueFull,
)
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import (
    MAX_SUMMARY_BYTES,
    Answer,
    AttributedRun,
    AttributionService,
    answer_without,
)

LOGGER = "attribot_rag.runtime.service"


MODEL = unshared()
Making = Callable[..., AttributionService]


@pytest.fixture
def making() -> Iterator[Making]:
    """Exact services, so that scores can be compared; all are closed at the end."""
    made: list[AttributionService] = []

    def make(**options: Any) -> AttributionService:
        settings = {"method": "leave_one_out", "verdicts": None, **options}
        made.append(AttributionService(MODEL, **settings))
        return made[-1]

    yield make
    for service in made:
        service.close()


@pytest.fixture
def service(making: Making) -> AttributionService:
    return making()


def model_says(*texts: str, prompt: str | None = None) -> None:
    """The model answers the usual prompt, or this one, in a batch."""
    say(MODEL, [prompt or rendered(MODEL)] * len(texts), texts)


def answer(text: str = ANSWER, **fields: Any) -> Answer:
    values = {"text": text, "documents": DOCUMENTS, "prompt_texts": [QUESTION], **fields}
    return Answer(**values)


_ids = itertools.count()


def attributed(service: AttributionService, answer: Answer, **options: Any) -> AttributedRun:
    """The run under an id of its own, within a root of its own."""
    number = next(_ids)
    return service.attribute(f"run {number}", f"root {number}", answer, **options)


def finished(service: AttributionService, run: AttributedRun) -> AttributedRun:
    return service.store.wait(run.run_id, 60)


def is_recording() -> bool:
    return "generate" in vars(MODEL.model)


def test_the_prompt_may_stand_before_the_answer(service: AttributionService) -> None:
    model_says(ANSWER)
    ids = MODEL.encode_prompt(rendered(MODEL))
    prompt = MODEL.decode(ids, skip_special_tokens=True)
    run = attributed(service, answer(prompt + ANSWER))
    assert run.answer.start == len(prompt)
    assert attribution_of(run).response == ANSWER
    summary = run.summary
    assert (summary["start"], summary["end"]) == (len(prompt), len(prompt + ANSWER))


@pytest.mark.parametrize("shown", [ANSWER, "In the old"])
def test_the_generation_of_an_attributed_answer_is_dropped(
    service: AttributionService, shown: str
) -> None:
    model_says("By the river.")
    model_says(ANSWER)
    attribution_of(attributed(service, answer(shown)))
    (generation,) = service.recorder.generations
    assert generation.response_ids == MODEL.encode("By the river.")
    assert isinstance(attributed(service, answer(shown)).error, NotRecorded)


@pytest.mark.parametrize(
    "unknown",
    [
        answer("By the river."),
        answer(ANSWER + " And more."),
        answer(prompt_texts=["Who burned it down?"]),
    ],
)
def test_an_answer_that_was_never_generated(service: AttributionService, unknown: Answer) -> None:
    model_says(ANSWER)
    run = attributed(service, unknown)
    assert run.attribution is None
    assert isinstance(run.error, NotRecorded)
    assert repr(unknown.text) in str(run.error)
    assert "pass the model that answers" in str(run.error)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_has_the_usual_keys_and_a_note(
    service: AttributionService, text: str
) -> None:
    run = attributed(service, answer(text))
    SUMMARIES.validate(run.summary)
    assert (run.error, run.attribution) == (None, None)
    assert (run.summary["status"], run.summary["sentences"]) == ("complete", [])
    assert "empty" in run.summary["notes"][0]
    assert service.store.wait(run.run_id) is run


def test_documents_that_are_not_in_the_prompt(
    service: AttributionService, caplog: pytest.LogCaptureFixture
) -> None:
    model_says(ANSWER)
    with caplog.at_level(logging.WARNING, LOGGER):
        run = attributed(service, answer(documents=["Penguins swim."]))
    assert run.attribution is None
    assert isinstance(run.error, DocumentsNotLocated)
    assert service.recorder.generations == ()  # nothing is held of it, either
    (record,) = caplog.records
    assert (record.name, record.levelname) == (LOGGER, "WARNING")
    assert record.getMessage() == f"no attribution: {run.error}"
    assert record.exc_info is None


def test_an_unexpected_error_is_logged_with_where_it_came_from(
    making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    service = making(method=Broken())
    model_says(ANSWER)
    with caplog.at_level(logging.WARNING, LOGGER):
        run = attributed(service, answer())
    assert isinstance(run.error, ZeroDivisionError)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is run.error


def test_errors_are_raised_if_that_was_asked_for(
    making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    service = making(raise_error=True)
    with pytest.raises(NotRecorded, match=r"not seen to give .*'In the old town hall\. It is"):
        attributed(service, answer())
    model_says(ANSWER)
    with pytest.raises(DocumentsNotLocated):
        attributed(service, answer(documents=["Penguins swim."]))
    assert caplog.records == []


def test_where_options_are_refused_nothing_is_recorded() -> None:
    with pytest.raises(InvalidInput, match="method"):
        AttributionService(MODEL, method="guess")
    assert not is_recording()


def test_in_the_background_the_run_is_pending_at_first(making: Making) -> None:
    results: list[tuple[AttributedRun, threading.Thread]] = []
    service = making(on_result=lambda run: results.append((run, threading.current_thread())))
    model_says(ANSWER)
    pending = attributed(service, answer(), background=True)
    assert (pending.summary["status"], pending.summary["run_id"]) == ("pending", pending.run_id)
    SUMMARIES.validate(pending.summary)
    run = finished(service, pending)
    ((result, thread),) = results
    assert result is run
    assert thread is not threading.current_thread()
    assert attribution_of(run).response == ANSWER
    assert service.recorder.generations == ()


@pytest.mark.parametrize("raise_error", [False, True])
def test_errors_in_the_background_are_reported(
    making: Making, caplog: pytest.LogCaptureFixture, raise_error: bool
) -> None:
    """Nobody could catch them; they are logged unless errors are to be raised."""
    results: list[AttributedRun] = []
    service = making(mode="background", on_result=results.append, raise_error=raise_error)
    with caplog.at_level(logging.WARNING, LOGGER):
        run = finished(service, attributed(service, answer()))
    assert isinstance(run.error, NotRecorded)
    assert results == [run]
    assert len(caplog.records) == (not raise_error)


class Blocked:
    """Listens to results; a run that has no error waits here until it is let go."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.results: list[AttributedRun] = []

    def __call__(self, run: AttributedRun) -> None:
        assert run.error or self.opened.wait(scaled(60))
        self.results.append(run)


@pytest.fixture
def block() -> Iterator[Blocked]:
    block = Blocked()
    yield block
    block.opened.set()


def test_a_run_cancelled_before_its_turn_is_reported(making: Making, block: Blocked) -> None:
    service = making(mode="background", on_result=block)
    model_says(ANSWER, "By the river.")
    first, second = (attributed(service, answer(text)) for text in (ANSWER, "By"))
    assert service.store.future(second.run_id).cancel()
    run = finished(service, second)
    block.opened.set()
    assert isinstance(run.error, AttributionCancelled)
    assert run.summary["status"] == "error"
    assert attribution_of(finished(service, first)).response == ANSWER
    assert [run.run_id for run in block.results] == [second.run_id, first.run_id]
    assert service.store.num_pending == 0


def test_at_most_max_pending_runs_wait(making: Making, block: Blocked) -> None:
    service = making(mode="background", max_pending=2, on_result=block)
    model_says(ANSWER, "By the river.")
    pending = [attributed(service, answer(text)) for text in (ANSWER, "By")]
    refused = attributed(service, answer("In 1648.")).error
    assert isinstance(refused, QueueFull) and "max_pending=2" in str(refused)
    block.opened.set()
    for run, text in zip(pending, (ANSWER, "By"), strict=True):
        assert attribution_of(finished(service, run)).response == text
    assert [type(run.error) for run in block.results if run.error] == [QueueFull]
    assert MODEL.weights.background.num_pending == 0


OTHER = rendered(MODEL, question="Who burned it down?")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for a generation lasts until it has ended."""
    monkeypatch.setattr("attribot_rag.runtime.service.MATCH_TIMEOUT", 3600.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("background", [False, True])
def test_an_answer_is_matched_while_the_model_gives_another(
    service: AttributionService, background: bool
) -> None:
    with running(MODEL, OTHER) as gate:
        run = finished(service, attributed(service, answer(), background=background))
        assert isinstance(run.error, NotRecorded)
        assert gate.waits
    model_says(ANSWER)
    with running(MODEL, OTHER) as gate:
        run = finished(service, attributed(service, answer(), background=background))
        assert attribution_of(run).response == ANSWER
        assert gate.waits


@pytest.mark.usefixtures("patient")
def test_an_answer_that_waits_for_its_generation_holds_up_no_other(making: Making) -> None:
    service = making(mode="background")
    with running(MODEL, OTHER) as gate:
        streamed = attributed(service, answer(prompt_texts=["Who burned it down?"]))
        model_says("By the river.")
        run = finished(service, attributed(service, answer("By the river.")))
        assert attribution_of(run).response == "By the river."
        assert service.store.num_pending == 1
        gate.opened.set()
        result = attribution_of(finished(service, streamed))
    assert (result.response, result.provenance.retokenized) == (ANSWER, False)


@pytest.mark.usefixtures("patient")
def test_recording_lasts_until_the_generation_ended(making: Making) -> None:
    service = making(record_always=False)
    service.begin_recording()
    with running(MODEL, rendered(MODEL)) as gate:
        streamed = attributed(service, answer(), background=True)
        service.end_recording()
        assert is_recording()
        gate.opened.set()
        assert attribution_of(finished(service, streamed)).response == ANSWER
    assert not is_recording()


def failed(error: Exception) -> AttributedRun:
    return AttributedRun("run", "root", Answer("Answer."), error=error)


@pytest.mark.parametrize("message", ["🙂" * 10**6, "\x00" * 10**6])
def test_long_messages_are_cut(message: str) -> None:
    run = failed(MemoryError(message))
    assert run.summary["error"] == {"type": "MemoryError", "message": message[:1000]}
    for max_bytes, summary in ((MAX_SUMMARY_BYTES, run.summary), (1200, run.summary_of(1200))):
        assert len(json.dumps(summary).encode()) <= max_bytes
        SUMMARIES.validate(summary)


class Reads:
    """Another model's answer to the usual prompt, which the tiny model reads."""

    PROMPT = messages()
    OTHER = "It was signed by the queen in spring."

    @classmethod
    def answer(cls, **fields: Any) -> Answer:
        return answer(cls.OTHER, prompt=cls.PROMPT, **fields)


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_reader_reads_what_another_model_answered(making: Making, mode: str) -> None:
    service = making(is_reader=True, mode=mode)
    run = finished(service, attributed(service, Reads.answer(answered_by="gpt-4o")))
    provenance = attribution_of(run).provenance
    assert (provenance.basis, provenance.answered_by) == ("reader", "gpt-4o")
    SUMMARIES.validate(run.summary)
    assert (run.summary["basis"], run.summary["answered_by"]) == ("reader", "gpt-4o")


def test_the_model_that_answered_is_asked_without_a_document(making: Making) -> None:
    service = making(is_reader=True)
    asked: list[Any] = []

    def ask(prompt: Any) -> str:
        asked.append(prompt)
        return "Nobody knows."

    run = attributed(service, Reads.answer(ask=ask))
    assert asked == []
    second = answer_without([making(), service], run, 0)
    assert second.response == "Nobody knows." and len(asked) == 1
    (before,), (after,) = ([turn["content"] for turn in p] for p in (Reads.PROMPT, asked[0]))
    assert DOCUMENTS[0] in before and DOCUMENTS[0] not in after and DOCUMENTS[1] in after
    unasked = attributed(service, Reads.answer())
    with pytest.raises(NotRecorded):
        answer_without([service], unasked, 0)


@pytest.mark.slow
@pytest.mark.embedded
def test_the_newest_answer_of_a_real_model_keeps_a_cache_larger_than_the_bound(
    smollm2: LocalModel,
) -> None:
    bound = 2**20
    service = AttributionService(smollm2, max_cache_bytes=bound, method="patching", verdicts=None)
    prompts = {name: rendered(smollm2, question=name) for name in ("Where?", "When?", "Who?")}

    def of(name: str) -> Answer:
        return answer(prompt_texts=[name], prompt=prompts[name])

    try:
        for prompt in prompts.values():
            say(smollm2, [prompt], [ANSWER])
        generations = service.recorder.generations
        assert [generation.cache is None for generation in generations] == [True, True, False]
        assert generations[-1].num_bytes > 4 * bound
        storages = [
            weakref.ref(tensor.untyped_storage())
            for layer in generations[-1].cache or ()
            for tensor in layer
        ]
        del generations
        kept = attribution_of(attributed(service, of("Who?")))
        again = service.attributor.attribute(prompts["Who?"], ANSWER, DOCUMENTS)
        for attribution in (kept, again):
            assert attribution.provenance.prefilled_tokens == 0
            assert not any("max_cache_bytes" in note for note in attribution.notes)
        dropped = attribution_of(attributed(service, of("When?")))
        assert dropped.provenance.prefilled_tokens > 0
        assert sum("max_cache_bytes" in note for note in dropped.notes) == 1
        say(smollm2, [prompts["When?"]], [ANSWER])
        gc.collect()
        assert not any(storage() is not None for storage in storages)
    finally:
        service.close()
