"""Answers of a tiny model, attributed as an integration with a framework has it done."""

import copy
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.patience import scaled
from support.schemas import SUMMARIES
from support.scripted_generation import (
    ANSWER,
    DOCUMENTS,
    QUESTION,
    messages,
    rendered,
    say,
)
from support.tiny_models import byte_level
from transformers import StoppingCriteria, StoppingCriteriaList, TextIteratorStreamer

from attribot_rag import Attribution, Attributor, Document, LeaveOneOut
from attribot_rag.context import TokenizedText
from attribot_rag.errors import (
    AttributionCancelled,
    DocumentsNotLocated,
    InvalidInput,
    NotRecorded,
    QueueFull,
    UnknownOption,
    UnsupportedModel,
)
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.recording import GenerationRecorder
from attribot_rag.runtime import (
    MAX_SUMMARY_BYTES,
    Answer,
    AttributedRun,
    AttributionService,
    service_that_saw,
)
from attribot_rag.verdicts import VerdictOptions

LOGGER = "attribot_rag.runtime.service"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """One that nothing else records."""
    shared = byte_level()
    return LanguageModel(copy.deepcopy(shared.model), shared.tokenizer)


Making = Callable[..., AttributionService]


@pytest.fixture
def making(model: LanguageModel) -> Iterator[Making]:
    """Exact ones, so that scores can be compared; all are closed at the end."""
    made: list[AttributionService] = []

    def make(**options: Any) -> AttributionService:
        given = {"method": "leave_one_out", "verdicts": None, **options}
        made.append(AttributionService(model, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def service(making: Making) -> AttributionService:
    return making()


def answer(text: str = ANSWER, **fields: Any) -> Answer:
    given = {"text": text, "documents": DOCUMENTS, "prompt_texts": [QUESTION], **fields}
    return Answer(**given)


_ids = itertools.count()


def attributed(service: AttributionService, answer: Answer, **options: Any) -> AttributedRun:
    """The run under an id of its own, within a root of its own."""
    number = next(_ids)
    return service.attribute(f"run {number}", f"root {number}", answer, **options)


def finished(service: AttributionService, run: AttributedRun) -> AttributedRun:
    return service.store.wait(run.run_id, 60)


def attribution_of(run: AttributedRun) -> Attribution:
    assert run.error is None
    assert run.attribution is not None
    return run.attribution


def start_of(run: AttributedRun) -> int:
    return run.answer.start


class TestCapture:
    @pytest.mark.parametrize("num_models", [1, 2])
    def test_it_is_searched_and_decoded_once(
        self, making: Making, monkeypatch: pytest.MonkeyPatch, num_models: int
    ) -> None:
        other = byte_level()
        services = [making(), *(AttributionService(other) for _ in range(num_models - 1))]
        model = services[0].attributor.language_model
        say(model, [rendered(model)], [ANSWER])
        (generation,) = services[0].recorder.generations
        calls: list[tuple[str, object]] = []
        decode, search = TokenizedText.of.__func__, GenerationRecorder._search  # type: ignore[attr-defined]

        def decoding(cls: Any, ids: Any, *rest: Any, **named: Any) -> Any:
            calls.append(("decoded", tuple(ids)))
            return decode(cls, ids, *rest, **named)

        def searching(recorder: GenerationRecorder, *rest: Any) -> Any:
            calls.append(("searched", recorder))
            return search(recorder, *rest)

        monkeypatch.setattr(TokenizedText, "of", classmethod(decoding))
        monkeypatch.setattr(GenerationRecorder, "_search", searching)
        service, matched = service_that_saw(services, answer())
        assert service is services[0]
        run = service.attribute("run", "root", matched)
        assert attribution_of(run).documents
        assert run.answer.transcript is None  # it may hold a KV cache
        searched = [("searched", service.recorder) for service in services]
        decoded = [("decoded", ids) for ids in (generation.prompt_ids, generation.response_ids)]
        assert sorted(map(str, calls)) == sorted(map(str, [*searched, *decoded]))

    def test_scores_are_those_of_an_attributor(
        self, model: LanguageModel, service: AttributionService
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        (recorded,) = service.recorder.generations
        expected = service.attributor.attribute_generation(recorded, DOCUMENTS)
        result = attribution_of(attributed(service, answer()))
        assert [source.text for source in result.sources] == [
            source.text for source in expected.sources
        ]
        assert abs(result.matrix - expected.matrix).max() < 1e-4
        assert result.documents == tuple(map(Document, DOCUMENTS))

    @pytest.mark.parametrize("skip_special_tokens", [True, False])
    def test_the_prompt_may_stand_before_the_answer(
        self, model: LanguageModel, service: AttributionService, skip_special_tokens: bool
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        prompt = model.decode(
            model.encode_prompt(rendered(model)), skip_special_tokens=skip_special_tokens
        )
        run = attributed(service, answer(prompt + ANSWER))
        assert start_of(run) == len(prompt)
        assert attribution_of(run).response == ANSWER
        summary = run.summary
        assert (summary["start"], summary["end"]) == (len(prompt), len(prompt + ANSWER))

    def test_a_streamed_answer_is_waited_for(
        self, model: LanguageModel, service: AttributionService
    ) -> None:
        streamer = TextIteratorStreamer(model.tokenizer, skip_prompt=True, skip_special_tokens=True)
        thread = threading.Thread(
            target=say, args=(model, [rendered(model)], [ANSWER]), kwargs={"streamer": streamer}
        )
        thread.start()
        result = attribution_of(attributed(service, answer("".join(streamer))))
        thread.join()
        assert result.response == ANSWER
        assert not result.provenance.retokenized

    def test_what_was_said_tells_equal_answers_apart(
        self, model: LanguageModel, service: AttributionService
    ) -> None:
        questions = ["Where was it signed?", "What is a museum today?"]
        prompts = [rendered(model, question=question) for question in questions]
        for prompt in prompts:
            say(model, [prompt], [ANSWER])
        result = attribution_of(attributed(service, answer(prompt_texts=[questions[0]])))
        assert result.provenance.prompt_tokens == len(model.encode_prompt(prompts[0]))
        (left,) = service.recorder.generations
        assert left.prompt_ids == model.encode_prompt(prompts[1])

    def test_earlier_turns_are_told_by_the_prompt(
        self, model: LanguageModel, service: AttributionService
    ) -> None:
        document, earlier = DOCUMENTS[0], "The town hall burned down later."
        chat = [
            {"role": "user", "content": f"{document}\nWhere?"},
            {"role": "assistant", "content": earlier},
            *messages(DOCUMENTS[1:2]),
        ]
        say(model, [model.decode(model.encode_prompt(chat))], [ANSWER])
        given = answer(documents=[*DOCUMENTS[:2], earlier], prompt=chat)
        result = attribution_of(attributed(service, given))
        say(model, [model.decode(model.encode_prompt(chat))], [ANSWER])
        expected = service.attributor.attribute(chat, ANSWER, given.documents)
        assert result.sources == expected.sources


class TestForgetting:
    @pytest.mark.parametrize("shown", [ANSWER, "In the old"])
    def test_nothing_is_held_of_an_attributed_answer(
        self, model: LanguageModel, service: AttributionService, shown: str
    ) -> None:
        say(model, [rendered(model)], ["By the river."])
        say(model, [rendered(model)], [ANSWER])
        attribution_of(attributed(service, answer(shown)))
        (left,) = service.recorder.generations
        assert left.response_ids == model.encode("By the river.")
        assert isinstance(attributed(service, answer(shown)).error, NotRecorded)

    def test_nor_of_one_that_could_not_be_attributed(
        self, model: LanguageModel, service: AttributionService
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        assert attributed(service, answer(documents=["Penguins swim."])).error is not None
        assert service.recorder.generations == ()

    def test_closing_gives_the_model_its_own_generate_back(
        self, model: LanguageModel, making: Making
    ) -> None:
        before = dict(vars(model.model))
        assert "generate" not in before
        first, second = making(), making()
        assert "generate" in vars(model.model)
        first.close()
        assert "generate" in vars(model.model)
        say(model, [rendered(model)], [ANSWER])
        assert first.recorder.generations == ()
        assert attribution_of(attributed(second, answer())).response == ANSWER
        second.close()
        second.close()
        assert vars(model.model) == before


class TestErrors:
    @pytest.mark.parametrize(
        "given",
        [
            answer("By the river."),
            answer(ANSWER + " And more."),
            answer(prompt_texts=["Who burned it down?"]),
        ],
    )
    def test_an_answer_that_was_never_generated(
        self, model: LanguageModel, service: AttributionService, given: Answer
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        run = attributed(service, given)
        assert run.attribution is None
        assert isinstance(run.error, NotRecorded)
        assert repr(given.text) in str(run.error)
        assert "pass the model that answers" in str(run.error)

    @pytest.mark.parametrize("text", ["", " \n", "\t"])
    def test_an_empty_answer_has_the_usual_keys_and_a_note(
        self, service: AttributionService, text: str
    ) -> None:
        run = attributed(service, answer(text))
        SUMMARIES.validate(run.summary)
        assert (run.error, run.attribution) == (None, None)
        assert (run.summary["status"], run.summary["sentences"]) == ("complete", [])
        assert "empty" in run.summary["notes"][0]
        assert service.store.wait(run.run_id) is run

    def test_documents_that_are_not_in_the_prompt(
        self,
        model: LanguageModel,
        service: AttributionService,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        with caplog.at_level(logging.WARNING, LOGGER):
            run = attributed(service, answer(documents=["Penguins swim."]))
        assert run.attribution is None
        assert isinstance(run.error, DocumentsNotLocated)
        (record,) = caplog.records
        assert (record.name, record.levelname) == (LOGGER, "WARNING")
        assert record.getMessage() == f"no attribution: {run.error}"
        assert record.exc_info is None

    def test_an_unexpected_error_is_logged_with_where_it_came_from(
        self,
        model: LanguageModel,
        making: Making,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        class Broken:
            def run(self, scorer: Any) -> Any:
                raise ZeroDivisionError("a method of the user's own")

        service = making(method=Broken())
        say(model, [rendered(model)], [ANSWER])
        with caplog.at_level(logging.WARNING, LOGGER):
            run = attributed(service, answer())
        assert isinstance(run.error, ZeroDivisionError)
        (record,) = caplog.records
        assert record.exc_info is not None
        assert record.exc_info[1] is run.error

    def test_errors_are_raised_if_that_was_asked_for(
        self, model: LanguageModel, making: Making, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = making(raise_error=True)
        with pytest.raises(NotRecorded, match=r"not seen to give .*'In the old town hall\. It is"):
            attributed(service, answer())
        say(model, [rendered(model)], [ANSWER])
        with pytest.raises(DocumentsNotLocated):
            attributed(service, answer(documents=["Penguins swim."]))
        assert caplog.records == []

    def test_unknown_options_are_refused_and_nothing_is_recorded(
        self, model: LanguageModel
    ) -> None:
        with pytest.raises(
            UnknownOption, match=r"^AttributionService has no option 'max_pendin'; "
        ):
            AttributionService(model, max_pendin=3)  # type: ignore[call-arg]
        with pytest.raises(InvalidInput, match="method"):
            AttributionService(model, method="guess")
        assert "generate" not in vars(model.model)


class TestBackground:
    def test_the_run_is_pending_at_first(self, model: LanguageModel, making: Making) -> None:
        told: list[tuple[AttributedRun, threading.Thread]] = []
        service = making(on_result=lambda run: told.append((run, threading.current_thread())))
        say(model, [rendered(model)], [ANSWER])
        pending = attributed(service, answer(), background=True)
        assert (pending.summary["status"], pending.summary["run_id"]) == ("pending", pending.run_id)
        SUMMARIES.validate(pending.summary)
        run = finished(service, pending)
        ((seen, thread),) = told
        assert seen is run
        assert thread is not threading.current_thread()
        assert attribution_of(run).response == ANSWER
        assert service.recorder.generations == ()

    def test_answers_are_attributed_in_order(self, model: LanguageModel, making: Making) -> None:
        texts = ["In 1648.", "By the river.", "In the museum."]
        told: list[str] = []
        service = making(mode="background", on_result=lambda run: told.append(run.text))
        say(model, [rendered(model)] * 3, texts)
        for run in [attributed(service, answer(text)) for text in texts]:
            assert attribution_of(finished(service, run)).response == run.text
        assert told == texts

    @pytest.mark.parametrize("raise_error", [False, True])
    def test_errors_are_told(
        self, making: Making, caplog: pytest.LogCaptureFixture, raise_error: bool
    ) -> None:
        """There is nobody to raise them to; they are logged for those who want no errors."""
        told: list[AttributedRun] = []
        service = making(mode="background", on_result=told.append, raise_error=raise_error)
        with caplog.at_level(logging.WARNING, LOGGER):
            run = finished(service, attributed(service, answer()))
        assert isinstance(run.error, NotRecorded)
        assert told == [run]
        assert len(caplog.records) == (not raise_error)

    def test_one_that_is_cancelled_before_its_turn_is_told(
        self, model: LanguageModel, making: Making
    ) -> None:
        opened = threading.Event()
        told: list[AttributedRun] = []

        def block(run: AttributedRun) -> None:
            assert run.error or opened.wait(scaled(60))
            told.append(run)

        service = making(mode="background", on_result=block)
        say(model, [rendered(model)] * 2, [ANSWER, "By the river."])
        first, second = (attributed(service, answer(text)) for text in (ANSWER, "By"))
        try:
            assert service.store.future(second.run_id).cancel()
            run = finished(service, second)
        finally:
            opened.set()
        assert isinstance(run.error, AttributionCancelled)
        assert run.summary["status"] == "error"
        assert attribution_of(finished(service, first)).response == ANSWER
        assert [one.run_id for one in told] == [second.run_id, first.run_id]
        assert service.store.num_pending == 0

    @pytest.mark.parametrize("raise_error", [False, True])
    def test_no_more_wait_than_may(
        self, model: LanguageModel, making: Making, raise_error: bool
    ) -> None:
        opened = threading.Event()
        told: list[AttributedRun] = []

        def block(run: AttributedRun) -> None:
            assert isinstance(run.error, QueueFull) or opened.wait(scaled(60))
            told.append(run)

        service = making(mode="background", max_pending=2, on_result=block, raise_error=raise_error)
        say(model, [rendered(model)] * 2, [ANSWER, "By the river."])
        pending = [attributed(service, answer(text)) for text in (ANSWER, "By")]
        try:
            if raise_error:
                with pytest.raises(QueueFull, match="max_pending=2"):
                    attributed(service, answer("In 1648."))
            else:
                assert isinstance(attributed(service, answer("In 1648.")).error, QueueFull)
        finally:
            opened.set()
        for run, text in zip(pending, (ANSWER, "By"), strict=True):
            assert attribution_of(finished(service, run)).response == text
        assert [type(run.error) for run in told if run.error] == [QueueFull] * (not raise_error)
        assert model.backend.background.num_pending == 0

    def test_two_services_of_a_model_take_turns(self, model: LanguageModel, making: Making) -> None:
        reached, opened, overtaken = threading.Event(), threading.Event(), threading.Event()

        def block(_: AttributedRun) -> None:
            reached.set()
            assert opened.wait(scaled(60))

        first = making(mode="background", on_result=block)
        second = making(mode="background", on_result=lambda _: overtaken.set())
        say(model, [rendered(model)], [ANSWER])
        pending = [(one, attributed(one, answer())) for one in (first, second)]
        try:
            assert reached.wait(scaled(60))
            assert not overtaken.wait(0.5)
        finally:
            opened.set()
        one, other = [attribution_of(finished(*each)) for each in pending]
        assert abs(one.matrix - other.matrix).max() < 1e-6


class Held(StoppingCriteria):
    """Holds a generation before its end until it is opened."""

    thread: threading.Thread

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.waits = True

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.reached.set()
        opened = self.opened.wait(scaled(60))
        self.waits = False
        assert opened
        return torch.zeros(len(input_ids), dtype=torch.bool)


class TestWhileTheModelRuns:
    """Answers that are attributed while another thread generates, which ends when it may."""

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever waits for a generation waits until it has ended."""
        monkeypatch.setattr("attribot_rag.runtime.service.MATCH_TIMEOUT", 3600.0)

    @pytest.fixture
    def held(self, model: LanguageModel) -> Iterator[Callable[[str], Held]]:
        all_held: list[Held] = []

        def begin(prompt: str) -> Held:
            held = Held()
            options = {"stopping_criteria": StoppingCriteriaList([held])}
            held.thread = threading.Thread(
                target=say, args=(model, [prompt], [ANSWER]), kwargs=options
            )
            held.thread.start()
            all_held.append(held)
            assert held.reached.wait(scaled(60))
            return held

        yield begin
        for held in all_held:
            held.opened.set()
            held.thread.join()

    @pytest.mark.parametrize("background", [False, True])
    def test_an_answer_that_the_model_did_not_give_is_told_at_once(
        self,
        model: LanguageModel,
        service: AttributionService,
        held: Callable[[str], Held],
        background: bool,
    ) -> None:
        other = held(rendered(model, question="Who burned it down?"))
        run = finished(service, attributed(service, answer(), background=background))
        assert isinstance(run.error, NotRecorded)
        assert other.waits

    @pytest.mark.parametrize("background", [False, True])
    def test_an_answer_that_it_gave_is_attributed_at_once(
        self,
        model: LanguageModel,
        service: AttributionService,
        held: Callable[[str], Held],
        background: bool,
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        other = held(rendered(model, question="Who burned it down?"))
        run = finished(service, attributed(service, answer(), background=background))
        assert attribution_of(run).response == ANSWER
        assert other.waits

    def test_an_answer_that_waits_for_its_generation_holds_up_no_other(
        self,
        model: LanguageModel,
        making: Making,
        held: Callable[[str], Held],
    ) -> None:
        service = making(mode="background")
        other = "Who burned it down?"
        gate = held(rendered(model, question=other))
        streamed = attributed(service, answer(prompt_texts=[other]))
        say(model, [rendered(model)], ["By the river."])
        run = finished(service, attributed(service, answer("By the river.")))
        assert attribution_of(run).response == "By the river."
        assert service.store.num_pending == 1
        gate.opened.set()
        result = attribution_of(finished(service, streamed))
        assert (result.response, result.provenance.retokenized) == (ANSWER, False)

    def test_recording_lasts_until_the_generation_ended(
        self,
        model: LanguageModel,
        making: Making,
        held: Callable[[str], Held],
    ) -> None:
        service = making(record_always=False)
        with service.recording():
            gate = held(rendered(model))
            streamed = attributed(service, answer(), background=True)
        assert "generate" in vars(model.model)
        gate.opened.set()
        assert attribution_of(finished(service, streamed)).response == ANSWER
        assert "generate" not in vars(model.model)


def test_an_attributor_of_one_s_own_takes_turns_with_the_service(
    model: LanguageModel, making: Making
) -> None:
    scoring, overlaps = threading.Lock(), list[bool]()

    class Watching(LeaveOneOut):
        def run(self, scorer: Any) -> Any:
            alone = scoring.acquire(blocking=False)
            overlaps.append(not alone)
            try:
                return super().run(scorer)
            finally:
                if alone:
                    scoring.release()

    service = making(method=Watching(), mode="background")
    attributor = Attributor(
        model.model, model.tokenizer, method=Watching(), verdicts=None, progress=False
    )
    say(model, [rendered(model)] * 4, [ANSWER] * 4)
    pending = [attributed(service, answer()) for _ in range(4)]

    def attribute() -> None:
        for _ in range(2):
            attributor.attribute(rendered(model), ANSWER, DOCUMENTS)

    threads = [threading.Thread(target=attribute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in pending:
        attribution_of(finished(service, run))
    assert overlaps == [False] * 8


class TestOutcomes:
    @pytest.mark.parametrize("options", [{}, {"method": "auto", "verdicts": VerdictOptions()}])
    def test_an_attribution_is_summarized(
        self, model: LanguageModel, making: Making, options: dict[str, Any]
    ) -> None:
        service = making(**options)
        say(model, [rendered(model)], [ANSWER])
        run = attributed(service, answer())
        summary = run.summary
        assert summary["status"] == "complete"
        assert summary["method"].startswith(options.get("method", "leave_one_out"))
        assert [sentence["verdict"] is not None for sentence in summary["sentences"]] == [
            bool(options)
        ] * 2
        SUMMARIES.validate(summary)

    @pytest.mark.parametrize(
        ("error", "status"),
        [(DocumentsNotLocated("none"), "error"), (UnsupportedModel("none"), "unsupported")],
    )
    def test_errors_are_summarized_by_kind_and_message(self, error: Exception, status: str) -> None:
        summary = failed(error).summary
        assert summary["status"] == status
        assert summary["error"] == {"type": type(error).__name__, "message": "none"}
        assert (summary["run_id"], summary["start"], summary["end"]) == ("run", 0, 7)
        SUMMARIES.validate(summary)

    @pytest.mark.parametrize("message", ["x" * 10**6, "条" * 10**6, "🙂" * 10**6, "\x00" * 10**6])
    def test_long_messages_are_cut(self, message: str) -> None:
        run = failed(MemoryError(message))
        assert run.summary["error"] == {"type": "MemoryError", "message": message[:1000]}
        for max_bytes, summary in ((MAX_SUMMARY_BYTES, run.summary), (1200, run.summary_of(1200))):
            assert len(json.dumps(summary).encode()) <= max_bytes
            SUMMARIES.validate(summary)


def failed(error: Exception) -> AttributedRun:
    return AttributedRun("run", "root", Answer("Answer."), error=error)


def test_recording_lasts_as_long_as_somebody_asked_for_it(
    making: Making, model: LanguageModel
) -> None:
    service = making(record_always=False)
    assert "generate" not in vars(model.model)
    service.begin_recording()
    service.begin_recording()
    service.end_recording()
    assert "generate" in vars(model.model)
    service.end_recording()
    assert "generate" not in vars(model.model)
    assert service.recorder.generations == ()
