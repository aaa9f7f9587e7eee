"""What the model answers without a document."""

import copy
import dataclasses
import gc
from typing import Any

import pytest
import torch
from support.scripted_generation import DOCUMENTS, generate, rendered, say
from support.tiny_models import byt5_encoder_decoder, byte_level

from attribot_rag import Attribution, Attributor, LanguageModel
from attribot_rag.attributor.counterfactual import Rerun
from attribot_rag.errors import InvalidInput, NotRecorded
from attribot_rag.recording import Generation

FERRY = (
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "The ferry Kittiwake carries up to 900 passengers.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
)
QUESTION = "How many passengers does the ferry Kittiwake carry?"


def attributor_of(model: LanguageModel) -> Attributor:
    return Attributor(model, method="leave_one_out", verdicts=None, progress=False)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return byte_level()


@pytest.fixture(scope="module")
def attributor(smollm2: LanguageModel) -> Attributor:
    return attributor_of(smollm2)


@pytest.fixture(scope="module")
def first(attributor: Attributor) -> Attribution:
    return attributor.ask(QUESTION, FERRY)


class TestRealModel:
    def test_a_poisoned_document_is_found_and_the_answer_without_it(
        self, attributor: Attributor, first: Attribution
    ) -> None:
        assert "900" in first.response
        worst = first.documents_by_effect()[0]
        assert worst.index == 1
        assert worst.document.text == FERRY[1]
        second = attributor.answer_without(first, worst.index)
        assert "84 passengers" in second.response
        assert second.score > 5
        assert second.notes == ()

    @pytest.mark.parametrize("gone", [(0,), (2,), (0, 1)])
    def test_it_is_the_answer_that_would_have_been_given(
        self, attributor: Attributor, first: Attribution, gone: tuple[int, ...]
    ) -> None:
        others = [text for index, text in enumerate(FERRY) if index not in gone]
        expected = attributor.ask(QUESTION, others)
        second = attributor.answer_without(first, *gone)
        assert second.response == expected.response
        assert second.documents == gone
        assert second.exact
        [prompt_ids] = [
            one.prompt_ids
            for provenance, one in attributor._generations.items()
            if provenance is expected.provenance
        ]
        forced = attributor.attribute(prompt_ids, first.response, others)
        lost = sum(first.token_log_likelihoods) - sum(forced.token_log_likelihoods)
        assert second.score == pytest.approx(lost, abs=1e-3)


@pytest.mark.parametrize(
    ("template", "gone", "left"),
    [
        ("{0}\n\n{1}\n\n{2}\n\nAnswer.", 0, "{1}\n\n{2}\n\nAnswer."),
        ("Read:\n\n{0}\n\n{1}\n\n{2}\n\nAnswer.", 1, "Read:\n\n{0}\n\n{2}\n\nAnswer."),
        ("Read:\n\n{0}\n\n{1}\n\n{2}\n\nAnswer.", 2, "Read:\n\n{0}\n\n{1}\n\nAnswer."),
        ("Read:\n{0}\n{1}\n{2}", 2, "Read:\n{0}\n{1}\n"),
        ("[1] {0}\n[2] {1}\n[3] {2}\n", 1, "[1] {0}\n[2] \n[3] {2}\n"),
        ("{0} {1} {2} Answer.", 1, "{0}  {2} Answer."),
        ("{1}\n{0}\n{1}\n{2}", 1, "{0}\n{2}"),
    ],
)
def test_only_the_document_leaves_the_prompt(
    model: LanguageModel, template: str, gone: int, left: str
) -> None:
    attributor = attributor_of(model)
    prompt = template.format(*DOCUMENTS)
    first = attributor.attribute(prompt, "In the hall.", DOCUMENTS)
    generation = Generation(model.encode(prompt), model.encode("In the hall."))
    rerun = Rerun.of(first, [gone], generation, model)
    found = model.decode(rerun.context.ablate(rerun.removed, model).ids)
    assert found == left.format(*DOCUMENTS)


def test_what_another_document_says_too_stays_there(model: LanguageModel) -> None:
    attributor = attributor_of(model)
    shared = "The treaty was signed in the old town hall."
    documents = [f"{shared} It rained.", f"{shared} Nobody came."]
    prompt = "\n".join([*documents, "Where?"])
    first = attributor.attribute(prompt, "In the hall.", documents)
    generation = Generation(model.encode(prompt), model.encode("In the hall."))
    rerun = Rerun.of(first, [0], generation, model)
    assert model.decode(rerun.context.ablate(rerun.removed, model).ids) == f"{documents[1]}\nWhere?"


class TestSettings:
    def test_the_model_is_told_what_it_was_told(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        settings = {"do_sample": True, "temperature": 1.5, "top_k": 20, "max_new_tokens": 7}
        inputs = torch.tensor([model.encode_prompt(rendered(model))])
        torch.manual_seed(0)
        with attributor.recorder:
            generate(model, inputs, **settings)
        recorded = attributor.recorder.generations[0]
        first = attributor.attribute_generation(recorded, DOCUMENTS)
        torch.manual_seed(1)
        second = attributor.answer_without(first, 1)
        torch.manual_seed(1)
        without = rendered(model, [DOCUMENTS[0], DOCUMENTS[2]])
        prompt = torch.tensor([model.encode_prompt(without)])
        expected = generate(model, prompt, **settings)[0, prompt.shape[1] :]
        assert second.response == model.decode(expected.tolist(), skip_special_tokens=True).strip()
        assert second.notes[0] == (
            "Answers are drawn at random, so they may differ without any cause."
        )
        greedy = attributor.answer_without(first, 1, do_sample=False)
        assert "random" not in " ".join(greedy.notes)

    def test_a_configuration_is_kept_as_it_was(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        configuration = copy.deepcopy(model.model.generation_config)
        assert configuration is not None
        configuration.max_new_tokens = 3
        inputs = torch.tensor([model.encode_prompt(rendered(model))])
        with attributor.recorder:
            generate(model, inputs, generation_config=configuration)
        configuration.max_new_tokens = 90
        [recorded] = attributor.recorder.generations
        first = attributor.attribute_generation(recorded, DOCUMENTS)
        second = attributor.answer_without(first, 0)
        assert second.notes == ("The second answer was cut at 3 tokens (max_new_tokens).",)

    def test_what_is_not_repeated_is_told(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        with attributor.recorder:
            say(model, [rendered(model)], ["In the old town hall."])
        first = attributor.attribute(rendered(model), "In the old town hall.", DOCUMENTS)
        second = attributor.answer_without(first, 0, max_new_tokens=2)
        assert second.notes == (
            "Not repeated for the second answer: logits_processor.",
            "The second answer was cut at 2 tokens (max_new_tokens).",
        )

    def test_an_answer_that_was_not_recorded(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        first = attributor.attribute(rendered(model), "In the old town hall.", DOCUMENTS)
        notes = attributor.answer_without(first, 0, max_new_tokens=2).notes
        assert notes[0].startswith("The first answer was not recorded")

    def test_a_model_that_was_changed_since(self) -> None:
        model = LanguageModel(copy.deepcopy(byte_level().model), byte_level().tokenizer)
        attributor = attributor_of(model)
        with attributor.recorder:
            say(model, [rendered(model)], ["In the old town hall."])
        first = attributor.attribute(rendered(model), "In the old town hall.", DOCUMENTS)
        with torch.no_grad():
            next(model.model.parameters()).mul_(1.1)
        notes = attributor.answer_without(first, 0, max_new_tokens=2).notes
        assert "The model was changed after it gave the first answer." in notes

    def test_the_decoder_begins_as_it_began(self) -> None:
        model = byt5_encoder_decoder()
        attributor = attributor_of(model)
        inputs = torch.tensor([model.encode("\n".join(DOCUMENTS))])
        begun = torch.tensor([[0, *model.encode("It ")]])
        settings: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False}
        settings["decoder_input_ids"] = begun
        with attributor.recorder:
            generate(model, inputs, **settings)
        first = attributor.attribute_generation(attributor.recorder.generations[0], DOCUMENTS)
        second = attributor.answer_without(first, 0)
        prompt = torch.tensor([model.encode("\n".join(DOCUMENTS[1:]))])
        expected = generate(model, prompt, **settings)[0, begun.shape[1] :]
        assert second.response == model.decode(expected.tolist(), skip_special_tokens=True).strip()


class TestErrors:
    def test_documents_that_cannot_be_left_out(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        documents = [*DOCUMENTS, "The king never came."]
        first = attributor.attribute(rendered(model), "In the hall.", documents)
        for given, message in [
            ((), "no document to leave out"),
            ((4,), "document 4 is not one of the 4 documents"),
            ((-1,), "document -1 is not one of the 4"),
            ((0, 3), "document 3 was not found in the prompt"),
        ]:
            with pytest.raises(InvalidInput, match=message):
                attributor.answer_without(first, *given)

    def test_only_what_this_attributor_made(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        first = attributor.attribute(rendered(model), "In the hall.", DOCUMENTS)
        annotated = dataclasses.replace(first, notes=("Seen.",))
        assert attributor.answer_without(annotated, 0, max_new_tokens=2).documents == (0,)
        for stranger, asked in [
            (Attribution.from_json(first.to_json()), attributor),
            (first, attributor_of(model)),
        ]:
            with pytest.raises(NotRecorded, match="not made by this Attributor"):
                asked.answer_without(stranger, 0)

    def test_nothing_is_kept_of_attributions_that_are_gone(self, model: LanguageModel) -> None:
        attributor = attributor_of(model)
        first = attributor.attribute(rendered(model), "In the hall.", DOCUMENTS)
        assert len(attributor._generations) == 1
        assert next(iter(attributor._generations.values())).cache is None
        del first
        gc.collect()
        assert len(attributor._generations) == 0
