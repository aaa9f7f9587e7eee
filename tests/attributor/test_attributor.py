"""Attributions of prompts, responses and documents, recorded or not."""

import copy
import gc
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from support.implementations import plain_scores
from support.scripted_generation import (
    ANSWER,
    DOCUMENTS,
    QUESTION,
    generate,
    messages,
    rendered,
    say,
)
from support.threads import at_once
from support.tiny_models import byte_level

from attribot_rag import Attribution, Attributor, Document, LocalModel
from attribot_rag.recording import GenerationRecorder

MODEL = byte_level()
PROMPT = rendered(MODEL)


def attributor_of(model: LocalModel) -> Attributor:
    """Exact, so that scores that came about in two ways can be compared; nothing is read twice."""
    return Attributor(
        model.model, model.tokenizer, method="leave_one_out", verdicts=None, progress=False
    )


def having_recorded(
    prompts: Sequence[str] = (PROMPT,), answers: Sequence[str] = (ANSWER,)
) -> Attributor:
    """An attributor whose recorder has these answers."""
    attributor = attributor_of(MODEL)
    with attributor.recorder:
        say(MODEL, prompts, answers)
    return attributor


@pytest.fixture
def attributor() -> Attributor:
    return attributor_of(MODEL)


@pytest.fixture(scope="module")
def recorded() -> Attribution:
    """The scores of the model's own generation; every other way in must agree with them."""
    return having_recorded().attribute(PROMPT, ANSWER, DOCUMENTS)


def assert_scores_are(result: Attribution, expected: Attribution, tolerance: float = 1e-3) -> None:
    assert [source.text for source in result.sources] == [
        source.text for source in expected.sources
    ]
    assert abs(result.matrix - expected.matrix).max() <= tolerance
    assert result.token_log_likelihoods == pytest.approx(
        expected.token_log_likelihoods, abs=tolerance
    )


def test_the_ids_scored_are_those_of_generate(recorded: Attribution) -> None:
    prompt_ids, response_ids = MODEL.encode_prompt(PROMPT), MODEL.encode(ANSWER)
    truth = plain_scores(MODEL.model, prompt_ids, response_ids)
    assert recorded.token_log_likelihoods == pytest.approx(truth.tolist(), abs=1e-4)
    provenance = recorded.provenance
    assert (provenance.prompt_tokens, provenance.prefilled_tokens) == (len(prompt_ids), 0)
    assert (provenance.implementation, provenance.retokenized) == ("packed", False)
    assert (provenance.dtype, provenance.device) == ("float32", "cpu")
    assert provenance.method == "leave_one_out"
    assert provenance.forward_passes >= 1
    assert provenance.scored_tokens > 0
    assert provenance.seconds > 0
    assert provenance.options["source_unit"] == "sentence"
    assert set(provenance.versions) == {"python", "attribot-rag", "torch", "transformers"}
    assert "tokenized" not in " ".join(recorded.notes)


def test_sampled_ids_that_text_would_not_give_back() -> None:
    """Sampled bytes are no clean text; their ids are scored nevertheless."""
    attributor = attributor_of(MODEL)
    inputs = torch.tensor([MODEL.encode_prompt(PROMPT)])
    torch.manual_seed(4)
    with attributor.recorder:
        sequences = generate(MODEL, inputs, do_sample=True, max_new_tokens=12)
    sampled = sequences[0, inputs.shape[1] :]
    shown = MODEL.decode(sampled.tolist(), skip_special_tokens=True)
    response_ids = attributor.recorder.generations[0].response_ids
    assert response_ids == tuple(sampled[: len(response_ids)].tolist())
    assert MODEL.encode(shown) != response_ids
    result = attributor.attribute(PROMPT, shown, DOCUMENTS)
    assert result.response.strip() == shown.strip()
    assert result.provenance.prefilled_tokens == 0
    truth = plain_scores(MODEL.model, tuple(inputs[0].tolist()), response_ids)
    assert not result.provenance.retokenized
    assert result.token_log_likelihoods == pytest.approx(truth.tolist(), abs=1e-4)


@pytest.mark.parametrize("ask_with", ["text", "messages", "ids", "tensor", "full text", "eos"])
def test_text_messages_ids_and_tensors_find_the_recording(
    recorded: Attribution, ask_with: str
) -> None:
    attributor = attributor_of(MODEL)
    with attributor.recorder:
        sequence = say(MODEL, [PROMPT], [ANSWER])[0]
    prompt_length = recorded.provenance.prompt_tokens
    prompt: Any
    response: Any
    prompt, response = {
        "text": (PROMPT, ANSWER),
        "messages": (messages(), ANSWER),
        "ids": (sequence[:prompt_length].tolist(), sequence[prompt_length:].tolist()),
        "tensor": (sequence[:prompt_length], sequence),
        "full text": (PROMPT, PROMPT + ANSWER),
        "eos": (PROMPT, MODEL.decode(sequence.tolist())),
    }[ask_with]
    result = attributor.attribute(prompt, response, DOCUMENTS)
    assert not result.provenance.retokenized
    assert result.provenance.prefilled_tokens == 0
    assert result.response == ANSWER
    assert_scores_are(result, recorded, 1e-6)


def test_the_cache_is_released_once_it_was_used() -> None:
    attributor = having_recorded([PROMPT] * 2, [ANSWER, "In the museum."])
    attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert [generation.cache is None for generation in attributor.recorder.generations] == [
        True,
        False,
    ]
    attributor.recorder.clear()
    again = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert again.provenance.prefilled_tokens == again.provenance.prompt_tokens - 1


def test_rows_of_a_left_padded_batch_score_as_if_alone() -> None:
    prompts = [rendered(MODEL, DOCUMENTS[:count]) for count in (3, 1, 2)]
    answers = ["In the old town hall.", "In October.", "By the river. It is a museum today."]
    batched = having_recorded(prompts, answers)
    for count, prompt, answer in zip((3, 1, 2), prompts, answers, strict=True):
        arguments = (prompt, answer, DOCUMENTS[:count])
        result = batched.attribute(*arguments)
        assert result.provenance.prefilled_tokens == 0
        assert_scores_are(result, having_recorded([prompt], [answer]).attribute(*arguments))


@pytest.mark.parametrize("response", [ANSWER, f" {ANSWER}", f"\n{ANSWER} \n"])
def test_is_said_to_be_tokenized_again(attributor: Attributor, response: str) -> None:
    result = attributor.attribute(PROMPT, response, DOCUMENTS)
    assert result.provenance.retokenized
    assert result.provenance.prefilled_tokens == result.provenance.prompt_tokens - 1
    assert any("tokenized again" in note for note in result.notes)
    assert result.response == response
    assert len(result.token_spans) == len(MODEL.encode(response))
    pieces = [response[start:end] for start, end in result.token_spans]
    assert "".join(pieces) == response


def test_text_gives_the_scores_of_the_recording(
    attributor: Attributor, recorded: Attribution
) -> None:
    """Also with the prompt before it; special tokens at the end are no columns."""
    bare = MODEL.decode(MODEL.encode_prompt(PROMPT), skip_special_tokens=True)
    for prompt, response in (
        (PROMPT, ANSWER),
        (messages(), ANSWER),
        (PROMPT, PROMPT + ANSWER),
        (PROMPT, bare + ANSWER),
        (PROMPT, f"{ANSWER}<|im_end|><|endoftext|><|endoftext|>"),
    ):
        result = attributor.attribute(prompt, response, DOCUMENTS)
        assert result.response == ANSWER
        assert_scores_are(result, recorded)


def test_ids_are_taken_as_they_are(attributor: Attributor, recorded: Attribution) -> None:
    prompt_ids, response_ids = MODEL.encode_prompt(PROMPT), MODEL.encode(ANSWER)
    eos_id = MODEL.tokenizer.eos_token_id
    for response in (response_ids, (*response_ids, eos_id, eos_id), prompt_ids + response_ids):
        result = attributor.attribute(prompt_ids, response, DOCUMENTS)
        assert not result.provenance.retokenized
        assert result.response == ANSWER
        assert_scores_are(result, recorded)
    mixed = attributor.attribute(PROMPT, response_ids, DOCUMENTS)
    assert mixed.provenance.retokenized


def test_many_threads_ask_at_once(attributor: Attributor) -> None:
    questions = [f"{QUESTION} {index}" for index in range(4)]
    options: dict[str, Any] = {"max_new_tokens": 5, "eos_token_id": None}
    expected = [attributor.ask(question, DOCUMENTS, **options) for question in questions]
    concurrent: dict[int, Attribution] = {}

    def ask(index: int) -> None:
        for _ in range(3):
            concurrent[index] = attributor.ask(questions[index], DOCUMENTS, **options)

    at_once(*(partial(ask, index) for index in range(4)))
    for index, alone in enumerate(expected):
        assert concurrent[index].response == alone.response
        assert_scores_are(concurrent[index], alone)
    assert "generate" not in vars(MODEL.model)


def test_documents_and_their_metadata_are_left_alone(attributor: Attributor) -> None:
    documents: list[Any] = [
        Document(DOCUMENTS[0], id="a", metadata={"tags": ["x"], "page": 3}),
        {"text": DOCUMENTS[1], "id": "b", "metadata": {"nested": {"k": [1]}}},
        DOCUMENTS[2],
    ]
    before = copy.deepcopy(documents)
    result = attributor.attribute(PROMPT, ANSWER, documents)
    data = result.to_dict()
    data["documents"][0]["metadata"]["tags"].append("y")
    data["documents"][1]["metadata"]["nested"]["k"].append(2)
    assert documents == before
    assert [document.id for document in result.documents] == ["a", "b", None]
    assert result.documents[0].metadata == {"tags": ["x"], "page": 3}


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_one_bar_or_none(capfd: pytest.CaptureFixture[str], progress: bool) -> None:
    Attributor(MODEL, progress=progress).attribute(PROMPT, ANSWER, DOCUMENTS)
    captured = capfd.readouterr()
    assert captured.out == ""
    lines = [line.split(":")[0].strip() for line in captured.err.split("\r") if line.strip()]
    assert {*lines} == ({"attributing"} if progress else set())


def test_another_look_at_an_answer_reads_its_prompt_no_more(recorded: Attribution) -> None:
    attributor = attributor_of(MODEL)
    first = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    again = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert first.provenance.prefilled_tokens == first.provenance.prompt_tokens - 1
    assert again.provenance.prefilled_tokens == 0
    assert_scores_are(again, recorded)
    before = attributor.answer_without(again, 0).score
    attributor.recorder.clear()
    assert before == pytest.approx(attributor.answer_without(again, 0).score, abs=1e-3)


def test_a_prompt_that_begins_alike_is_read_from_there_on(recorded: Attribution) -> None:
    attributor = attributor_of(MODEL)
    other = PROMPT.replace(QUESTION, "Who signed it, and when?")
    attributor.attribute(other, ANSWER, DOCUMENTS)
    read = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert 0 < read.provenance.prefilled_tokens < read.provenance.prompt_tokens / 4
    assert_scores_are(read, recorded)


def test_a_model_that_was_changed_reads_a_prompt_again() -> None:
    model = LocalModel(copy.deepcopy(MODEL.model), MODEL.tokenizer)
    attributor = attributor_of(model)
    attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    with torch.no_grad():
        next(model.model.parameters()).mul_(1.1)
    again = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert again.provenance.prefilled_tokens == again.provenance.prompt_tokens - 1
    assert_scores_are(again, attributor_of(model).attribute(PROMPT, ANSWER, DOCUMENTS))


def test_the_note_says_that_a_cache_was_let_go() -> None:
    attributor = Attributor(
        MODEL, recorder=GenerationRecorder(MODEL, max_cache_bytes=1), progress=False
    )
    with attributor.recorder:
        say(MODEL, [PROMPT], [ANSWER])
        say(MODEL, [PROMPT + " "], [ANSWER])
    first, newest = attributor.recorder.generations
    kept = attributor.attribute_generation(newest, DOCUMENTS)
    assert kept.provenance.prefilled_tokens == 0
    assert not any("max_cache_bytes" in note for note in kept.notes)
    attributor.recorder.clear()
    dropped = attributor.attribute_generation(first, DOCUMENTS)
    assert dropped.provenance.prefilled_tokens > 0
    assert sum("max_cache_bytes" in note for note in dropped.notes) == 1


def test_what_is_probed_of_a_model_is_probed_once() -> None:
    model = LocalModel(copy.deepcopy(MODEL.model), MODEL.tokenizer)
    first, second = Attributor(model, progress=False), Attributor(model, progress=False)
    attributions = [each.attribute(PROMPT, ANSWER, DOCUMENTS) for each in (first, second, second)]
    assert first.backend is second.backend
    seconds = [attribution.provenance.seconds for attribution in attributions]
    assert_scores_are(attributions[0], attributions[1])
    assert all(seconds)
    freed = weakref.ref(model.model)
    del first, second, model
    gc.collect()
    assert freed() is None


def test_after_a_warm_up_the_first_attribution_runs_the_model_no_more_than_the_next() -> None:
    model = byte_level.__wrapped__()  # another one, which nobody probed
    attributor, passes = attributor_of(model), [0]
    model.model.register_forward_hook(lambda *_: passes.append(passes.pop() + 1))
    attributor.warm_up()
    counts = [passes[0]]
    for _ in range(2):
        attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
        counts.append(passes[0])
        attributor.recorder.clear()
    warm_up, first, second = counts
    assert warm_up and first - warm_up == second - first
