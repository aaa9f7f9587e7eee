"""The model's answer without a document."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.scripted_generation import DOCUMENTS, generate, rendered, say
from support.tiny_models import byte_level, unshared

from attribot_rag import Attribution, Attributor, LocalModel
from attribot_rag.attributor.counterfactual import Rerun
from attribot_rag.errors import InvalidInput, NotRecorded
from attribot_rag.recording import Generation

FERRY = (
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "The ferry Kittiwake carries up to 900 passengers.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
)
QUESTION = "How many passengers does the ferry Kittiwake carry?"


MODEL = byte_level()
PROMPT = rendered(MODEL)
ANSWER = "In the old town hall."


def attributor_of(model: LocalModel) -> Attributor:
    return Attributor(model, method="leave_one_out", verdicts=None, progress=False)


@pytest.fixture(scope="module")
def attributor(smollm2: LocalModel) -> Attributor:
    return attributor_of(smollm2)


@pytest.fixture(scope="module")
def first(attributor: Attributor) -> Attribution:
    return attributor.ask(QUESTION, FERRY)


def test_a_poisoned_document_is_found_and_the_answer_without_it(
    attributor: Attributor, first: Attribution
) -> None:
    assert "900" in first.response
    worst = first.documents_by_effect()[0]
    assert worst.index == 1
    assert worst.document.text == FERRY[1]
    second = attributor.answer_without(first, worst.index)
    assert "84 passengers" in second.response
    assert second.score > 5
    assert second.notes == ()


def test_the_second_answer_is_that_of_a_prompt_without_the_documents(
    attributor: Attributor, first: Attribution
) -> None:
    gone = (0, 1)
    remaining = [text for index, text in enumerate(FERRY) if index not in gone]
    expected = attributor.ask(QUESTION, remaining)
    second = attributor.answer_without(first, *gone)
    assert second.response == expected.response
    assert second.documents == gone
    assert second.exact
    kept = attributor._generations.get(expected.provenance)
    assert kept is not None
    forced = attributor.attribute(kept.prompt_ids, first.response, remaining)
    lost = sum(first.token_log_likelihoods) - sum(forced.token_log_likelihoods)
    assert second.score == pytest.approx(lost, abs=1e-3)


def cut_prompt(prompt: str, documents: Sequence[str], gone: int) -> str:
    """The prompt of the second answer."""
    first = attributor_of(MODEL).attribute(prompt, ANSWER, documents)
    generation = Generation(MODEL.encode(prompt), MODEL.encode(ANSWER))
    rerun = Rerun.of(first, [gone], generation, MODEL)
    return MODEL.decode(rerun.context.ablate(rerun.removed, MODEL).ids)


@pytest.mark.parametrize(
    ("template", "gone", "expected"),
    [
        ("{0}\n\n{1}\n\n{2}\n\nAnswer.", 0, "{1}\n\n{2}\n\nAnswer."),
        ("Read:\n\n{0}\n\n{1}\n\n{2}\n\nAnswer.", 1, "Read:\n\n{0}\n\n{2}\n\nAnswer."),
        ("Read:\n{0}\n{1}\n{2}", 2, "Read:\n{0}\n{1}\n"),
        ("[1] {0}\n[2] {1}\n[3] {2}\n", 1, "[1] {0}\n[2] \n[3] {2}\n"),
        ("{1}\n{0}\n{1}\n{2}", 1, "{0}\n{2}"),
    ],
)
def test_only_the_document_leaves_the_prompt(template: str, gone: int, expected: str) -> None:
    prompt = cut_prompt(template.format(*DOCUMENTS), DOCUMENTS, gone)
    assert prompt == expected.format(*DOCUMENTS)


def test_a_sentence_that_another_document_shares_stays_there() -> None:
    documents = [
        f"The treaty was signed in town. {rest}" for rest in ("It rained.", "Nobody came.")
    ]
    assert cut_prompt("\n".join([*documents, "Where?"]), documents, 0) == f"{documents[1]}\nWhere?"


def recorded(model: LocalModel, prompt: str, **settings: Any) -> tuple[Attributor, Attribution]:
    """The attribution of the answer that `generate` gives by these settings, and its attributor."""
    attributor = attributor_of(model)
    inputs = torch.tensor([model.encode(prompt, special=True)])
    with attributor.recorder:
        generate(model, inputs, **settings)
    (generation,) = attributor.recorder.generations
    return attributor, attributor.attribute_generation(generation, DOCUMENTS)


def generated(model: LocalModel, prompt: str, num_begun: int = 0, **settings: Any) -> str:
    inputs = torch.tensor([model.encode(prompt, special=True)])
    ids = generate(model, inputs, **settings)[0, num_begun or inputs.shape[1] :]
    return model.decode(ids.tolist(), skip_special_tokens=True).strip()


def test_the_second_answer_repeats_the_settings_of_the_first() -> None:
    settings: dict[str, Any] = {"do_sample": True, "temperature": 1.5, "top_k": 20}
    settings["max_new_tokens"] = 7
    torch.manual_seed(0)
    attributor, first = recorded(MODEL, PROMPT, **settings)
    torch.manual_seed(1)
    second = attributor.answer_without(first, 1)
    torch.manual_seed(1)
    without = rendered(MODEL, [DOCUMENTS[0], DOCUMENTS[2]])
    assert second.response == generated(MODEL, without, **settings)
    assert "at random" in second.notes[0]
    greedy = attributor.answer_without(first, 1, do_sample=False)
    assert "random" not in " ".join(greedy.notes)


def test_a_model_that_was_changed_since() -> None:
    model = unshared()
    attributor = attributor_of(model)
    with attributor.recorder:
        say(model, [rendered(model)], [ANSWER])
    first = attributor.attribute(rendered(model), ANSWER, DOCUMENTS)
    with torch.no_grad():
        next(model.model.parameters()).mul_(1.1)
    notes = attributor.answer_without(first, 0, max_new_tokens=2).notes
    assert any("model was changed" in note for note in notes)


def test_documents_that_cannot_be_left_out() -> None:
    attributor = attributor_of(MODEL)
    documents = [*DOCUMENTS, "The king never came."]
    first = attributor.attribute(PROMPT, ANSWER, documents)
    for indices, message in [
        ((), "no document to leave out"),
        ((4,), "no document has the index 4: there are 4"),
        ((-1,), "no document has the index -1"),
        ((0, 3), "the document with the index 3 was not found"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            attributor.answer_without(first, *indices)


def test_attributions_of_other_attributors_are_refused() -> None:
    attributor = attributor_of(MODEL)
    first = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    annotated = dataclasses.replace(first, notes=("Seen.",))
    assert attributor.answer_without(annotated, 0, max_new_tokens=2).documents == (0,)
    for stranger, recipient in [
        (Attribution.from_json(first.to_json()), attributor),
        (first, attributor_of(MODEL)),
    ]:
        with pytest.raises(NotRecorded, match="not made by this Attributor"):
            recipient.answer_without(stranger, 0)
