"""Answers of a tiny model, attributed as an adapter to a framework has it done."""

import copy
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
    generate,
    messages,
    rendered,
    say,
)
from support.tiny_models import byte_level
from transformers import TextIteratorStreamer

from attribot_rag import Attribution, Document
from attribot_rag.adapting import MAX_SUMMARY_BYTES, Answer, AnswerAttributor, Outcome, Worker
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, NotRecorded, QueueFull
from attribot_rag.language_model import LanguageModel
from attribot_rag.verdicts import VerdictOptions

LOGGER = "attribot_rag.adapting.answers"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """One that nothing else records."""
    shared = byte_level()
    return LanguageModel(copy.deepcopy(shared.model), shared.tokenizer)


Making = Callable[..., AnswerAttributor]


@pytest.fixture
def making(model: LanguageModel) -> Iterator[Making]:
    """Exact ones, so that scores can be compared; all are closed at the end."""
    made: list[AnswerAttributor] = []

    def make(**options: Any) -> AnswerAttributor:
        given = {"method": "leave_one_out", "verdicts": None, **options}
        made.append(AnswerAttributor(model, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def answers(making: Making) -> AnswerAttributor:
    return making()


def answer(text: str = ANSWER, **fields: Any) -> Answer:
    return Answer(**{"text": text, "documents": DOCUMENTS, "said": [QUESTION], **fields})


def attribution_of(outcome: Outcome) -> Attribution:
    assert outcome.error is None
    assert outcome.attribution is not None
    return outcome.attribution


def true_log_likelihoods(
    model: LanguageModel, prompt_ids: tuple[int, ...], response_ids: tuple[int, ...]
) -> list[float]:
    ids = torch.tensor([[*prompt_ids, *response_ids]])
    with torch.no_grad():
        logits: torch.Tensor = model.model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1]
    found = logits.log_softmax(-1).gather(-1, torch.tensor(response_ids)[:, None])[:, 0]
    return [float(one) for one in found]


class TestCapture:
    def test_the_ids_scored_are_those_that_generate_saw_and_gave(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        """Sampled bytes are no clean text; encoding it would give other ids."""
        inputs = torch.tensor([model.encode_prompt(rendered(model))])
        torch.manual_seed(4)
        sequences = generate(model, inputs, do_sample=True, max_new_tokens=12)
        (recorded,) = answers.attributor.recorder.generations
        shown = model.decode(sequences[0, inputs.shape[1] :].tolist(), skip_special_tokens=True)
        assert model.encode(shown) != recorded.response_ids
        outcome = answers.attribute(answer(shown))
        found = attribution_of(outcome)
        assert outcome.start == 0
        assert found.response == shown
        assert not found.provenance.retokenized
        assert found.provenance.prefilled_tokens == 0  # its cache was taken over
        prompt_ids = tuple(inputs[0].tolist())
        truth = true_log_likelihoods(model, prompt_ids, recorded.response_ids)
        assert found.token_log_likelihoods == pytest.approx(truth, abs=1e-4)

    def test_scores_are_those_of_an_attributor(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        (recorded,) = answers.attributor.recorder.generations
        expected = answers.attributor.attribute_generation(recorded, DOCUMENTS)
        found = attribution_of(answers.attribute(answer()))
        assert [one.text for one in found.sources] == [one.text for one in expected.sources]
        assert abs(found.matrix - expected.matrix).max() < 1e-4
        assert found.documents == tuple(map(Document, DOCUMENTS))

    @pytest.mark.parametrize("skip_special_tokens", [True, False])
    def test_the_prompt_may_stand_before_the_answer(
        self, model: LanguageModel, answers: AnswerAttributor, skip_special_tokens: bool
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        prompt = model.decode(
            model.encode_prompt(rendered(model)), skip_special_tokens=skip_special_tokens
        )
        outcome = answers.attribute(answer(prompt + ANSWER))
        assert outcome.start == len(prompt)
        assert attribution_of(outcome).response == ANSWER
        summary = outcome.summary()
        assert (summary["start"], summary["end"]) == (len(prompt), len(prompt + ANSWER))

    def test_space_around_the_answer_counts(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        say(model, [rendered(model)], [f" {ANSWER}\n"])
        outcome = answers.attribute(answer(f" {ANSWER}\n"))
        assert outcome.start == 0
        assert attribution_of(outcome).response == f" {ANSWER}\n"

    def test_the_beginning_of_an_answer(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        found = attribution_of(answers.attribute(answer("In the old town hall.")))
        assert found.response == "In the old town hall."
        assert len(found.token_spans) == len(model.encode("In the old town hall."))
        assert not found.provenance.retokenized

    def test_a_streamed_answer_is_waited_for(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        streamer = TextIteratorStreamer(model.tokenizer, skip_prompt=True, skip_special_tokens=True)
        thread = threading.Thread(
            target=say, args=(model, [rendered(model)], [ANSWER]), kwargs={"streamer": streamer}
        )
        thread.start()
        found = attribution_of(answers.attribute(answer("".join(streamer))))
        thread.join()
        assert found.response == ANSWER
        assert not found.provenance.retokenized

    def test_what_was_said_tells_equal_answers_apart(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        questions = ["Where was it signed?", "What is a museum today?"]
        prompts = [rendered(model, question=question) for question in questions]
        for prompt in prompts:
            say(model, [prompt], [ANSWER])
        found = attribution_of(answers.attribute(answer(said=[questions[0]])))
        assert found.provenance.prompt_tokens == len(model.encode_prompt(prompts[0]))
        (left,) = answers.attributor.recorder.generations
        assert left.prompt_ids == model.encode_prompt(prompts[1])

    def test_a_batch_as_large_as_frameworks_have_them(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        texts = [f"In {year}." for year in range(1600, 1640)]
        say(model, [rendered(model)] * len(texts), texts)
        for text in texts[::13]:
            assert attribution_of(answers.attribute(answer(text))).response == text

    def test_earlier_turns_are_told_by_the_prompt(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        document, earlier = DOCUMENTS[0], "The town hall burned down later."
        chat = [
            {"role": "user", "content": f"{document}\nWhere?"},
            {"role": "assistant", "content": earlier},
            *messages(DOCUMENTS[1:2]),
        ]
        say(model, [model.decode(model.encode_prompt(chat))], [ANSWER])
        given = answer(documents=[*DOCUMENTS[:2], earlier], prompt=chat)
        found = attribution_of(answers.attribute(given))
        say(model, [model.decode(model.encode_prompt(chat))], [ANSWER])
        expected = answers.attributor.attribute(chat, ANSWER, given.documents)
        assert found.sources == expected.sources


class TestForgetting:
    @pytest.mark.parametrize("shown", [ANSWER, "In the old"])
    def test_nothing_is_held_of_an_attributed_answer(
        self, model: LanguageModel, answers: AnswerAttributor, shown: str
    ) -> None:
        say(model, [rendered(model)], ["By the river."])
        say(model, [rendered(model)], [ANSWER])
        attribution_of(answers.attribute(answer(shown)))
        (left,) = answers.attributor.recorder.generations
        assert left.response_ids == model.encode("By the river.")
        assert isinstance(answers.attribute(answer(shown)).error, NotRecorded)

    def test_nor_of_one_that_could_not_be_attributed(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        assert answers.attribute(answer(documents=["Penguins swim."])).error is not None
        assert answers.attributor.recorder.generations == ()

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
        assert first.attributor.recorder.generations == ()
        assert attribution_of(second.attribute(answer())).response == ANSWER
        second.close()
        second.close()
        assert vars(model.model) == before


class TestErrors:
    @pytest.mark.parametrize(
        "given",
        [
            answer("By the river."),
            answer(ANSWER + " And more."),
            answer(said=["Who burned it down?"]),
        ],
    )
    def test_an_answer_that_was_never_generated(
        self, model: LanguageModel, answers: AnswerAttributor, given: Answer
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        outcome = answers.attribute(given)
        assert outcome.attribution is None
        assert isinstance(outcome.error, NotRecorded)
        assert repr(given.text) in str(outcome.error)
        assert "pass the model that answers" in str(outcome.error)

    @pytest.mark.parametrize("text", ["", " \n"])
    def test_an_empty_answer(self, answers: AnswerAttributor, text: str) -> None:
        error = answers.attribute(answer(text)).error
        assert isinstance(error, InvalidInput)
        assert "is empty" in str(error)

    def test_documents_that_are_not_in_the_prompt(
        self,
        model: LanguageModel,
        answers: AnswerAttributor,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        with caplog.at_level(logging.WARNING, LOGGER):
            outcome = answers.attribute(answer(documents=["Penguins swim."]))
        assert outcome.attribution is None
        assert isinstance(outcome.error, DocumentsNotLocated)
        (record,) = caplog.records
        assert (record.name, record.levelname) == (LOGGER, "WARNING")
        assert record.getMessage() == f"no attribution: {outcome.error}"
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

        answers = making(method=Broken())
        say(model, [rendered(model)], [ANSWER])
        with caplog.at_level(logging.WARNING, LOGGER):
            outcome = answers.attribute(answer())
        assert isinstance(outcome.error, ZeroDivisionError)
        (record,) = caplog.records
        assert record.exc_info is not None
        assert record.exc_info[1] is outcome.error

    def test_errors_are_raised_if_that_was_asked_for(
        self, model: LanguageModel, making: Making, caplog: pytest.LogCaptureFixture
    ) -> None:
        answers = making(raise_error=True)
        with pytest.raises(NotRecorded, match=r"'In the old town hall\. It is a museum\.' is none"):
            answers.attribute(answer())
        say(model, [rendered(model)], [ANSWER])
        with pytest.raises(DocumentsNotLocated):
            answers.attribute(answer(documents=["Penguins swim."]))
        with pytest.raises(InvalidInput, match="is empty"):
            answers.attribute(answer(""))
        assert caplog.records == []

    @pytest.mark.parametrize("max_pending", [0, -1])
    def test_a_queue_that_holds_nothing(self, making: Making, max_pending: int) -> None:
        with pytest.raises(InvalidInput, match=f"max_pending={max_pending}; use at least 1"):
            making(max_pending=max_pending)

    def test_unknown_options_are_refused_and_nothing_is_recorded(
        self, model: LanguageModel
    ) -> None:
        with pytest.raises(TypeError, match="colour"):
            AnswerAttributor(model, colour="red")
        with pytest.raises(InvalidInput, match="method"):
            AnswerAttributor(model, method="guess")
        assert "generate" not in vars(model.model)


class TestBackground:
    def test_then_is_told_before_the_future_is_done(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        told: list[tuple[Outcome, threading.Thread]] = []
        future = answers.submit(
            answer(), lambda outcome: told.append((outcome, threading.current_thread()))
        )
        outcome = future.result(scaled(60))
        ((seen, thread),) = told
        assert seen is outcome
        assert thread is not threading.current_thread()
        assert attribution_of(outcome).response == ANSWER
        assert answers.attributor.recorder.generations == ()

    def test_answers_are_attributed_in_order(
        self, model: LanguageModel, answers: AnswerAttributor
    ) -> None:
        texts = ["In 1648.", "By the river.", "In the museum."]
        say(model, [rendered(model)] * 3, texts)
        told: list[str] = []
        futures = [
            answers.submit(
                answer(text), lambda outcome: told.append(attribution_of(outcome).response)
            )
            for text in texts
        ]
        for future in futures:
            future.result(scaled(60))
        assert told == texts

    def test_errors_are_told_and_logged(
        self, answers: AnswerAttributor, caplog: pytest.LogCaptureFixture
    ) -> None:
        told: list[Outcome] = []
        with caplog.at_level(logging.WARNING, LOGGER):
            outcome = answers.submit(answer(), told.append).result(scaled(60))
        assert isinstance(outcome.error, NotRecorded)
        assert told == [outcome]
        assert len(caplog.records) == 1

    def test_errors_that_are_raised_are_told_too(self, making: Making) -> None:
        told: list[Outcome] = []
        future = making(raise_error=True).submit(answer(), told.append)
        with pytest.raises(NotRecorded) as caught:
            future.result(scaled(60))
        assert [outcome.error for outcome in told] == [caught.value]

    def test_no_more_wait_than_may(self, model: LanguageModel, making: Making) -> None:
        answers = making(max_pending=2)
        say(model, [rendered(model)] * 2, [ANSWER, "By the river."])
        opened = threading.Event()
        told: list[Outcome] = []

        def block(outcome: Outcome) -> None:
            assert opened.wait(scaled(60))
            told.append(outcome)

        futures = [answers.submit(answer(), block), answers.submit(answer("By"), told.append)]
        try:
            with pytest.raises(QueueFull, match="max_pending=2"):
                answers.submit(answer("In 1648."), told.append)
        finally:
            opened.set()
        assert [future.result(scaled(60)) for future in futures] == told
        assert [attribution_of(outcome).response for outcome in told] == [ANSWER, "By"]
        assert Worker.of(model.model).num_pending == 0

    def test_two_attributors_of_a_model_take_turns(
        self, model: LanguageModel, making: Making
    ) -> None:
        first, second = making(), making()
        say(model, [rendered(model)], [ANSWER])
        reached, opened, overtaken = threading.Event(), threading.Event(), threading.Event()

        def block(_: Outcome) -> None:
            reached.set()
            assert opened.wait(scaled(60))

        futures = [
            first.submit(answer(), block),
            second.submit(answer(), lambda _: overtaken.set()),
        ]
        try:
            assert reached.wait(scaled(60))
            assert not overtaken.wait(0.5)
        finally:
            opened.set()
        one, other = [attribution_of(future.result(scaled(60))) for future in futures]
        assert abs(one.matrix - other.matrix).max() < 1e-6


class TestOutcomes:
    @pytest.mark.parametrize("options", [{}, {"method": "auto", "verdicts": VerdictOptions()}])
    def test_an_attribution_is_summarized(
        self, model: LanguageModel, making: Making, options: dict[str, Any]
    ) -> None:
        answers = making(**options)
        say(model, [rendered(model)], [ANSWER])
        summary = answers.attribute(answer()).summary()
        assert summary["status"] == "complete"
        assert summary["method"].startswith(options.get("method", "leave_one_out"))
        assert [one.get("verdict") is not None for one in summary["sentences"]] == [
            bool(options)
        ] * 2
        SUMMARIES.validate(summary)

    def test_errors_are_summarized_by_kind_and_message(self) -> None:
        summary = Outcome(error=DocumentsNotLocated("no document is there")).summary()
        assert summary == {
            "schema_version": "1.3",
            "status": "error",
            "error": {"type": "DocumentsNotLocated", "message": "no document is there"},
        }
        SUMMARIES.validate(summary)

    @pytest.mark.parametrize("message", ["x" * 10**6, "条" * 10**6, "🙂" * 10**6, "\x00" * 10**6])
    def test_long_messages_are_cut(self, message: str) -> None:
        summary = Outcome(error=MemoryError(message)).summary()
        assert summary["error"]["type"] == "MemoryError"
        assert summary["error"]["message"] == message[:1000]
        assert len(json.dumps(summary).encode()) <= MAX_SUMMARY_BYTES
        SUMMARIES.validate(summary)


def test_recording_lasts_as_long_as_somebody_asked_for_it(
    making: Making, model: LanguageModel
) -> None:
    answers = making(always=False)
    assert "generate" not in vars(model.model)
    answers.begin()
    answers.begin()
    answers.end()
    assert "generate" in vars(model.model)
    answers.end()
    assert "generate" not in vars(model.model)
    assert answers.attributor.recorder.generations == ()
