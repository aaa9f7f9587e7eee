"""Messages as applications write them, and recordings of prompts that hold more than messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, messages, say
from support.tiny_models import byte_level

from attribot_rag import Attributor, LanguageModel, LeaveOneOut
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import message_text, render

PARTS_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{{ part['text'] }}\n{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ADDING_TEMPLATE = "{{ messages[0]['role'] + ': ' + messages[0]['content'] }}"


def in_parts(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]


def attributor_of(model: LanguageModel) -> Attributor:
    return Attributor(model, method=LeaveOneOut(), verdicts=None, progress=False)


@pytest.fixture
def model() -> LanguageModel:
    return byte_level()


def test_parts_are_the_same_prompt_as_their_text(model: LanguageModel) -> None:
    texts = ("Be brief.", "条約は?", "町で。", "Grüße aus 1648!")
    roles = ("system", "user", "assistant", "user")
    turns = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    assert render(in_parts(turns), model.tokenizer) == render(turns, model.tokenizer)
    assert [message_text(turn) for turn in in_parts(turns)] == list(texts)


def test_a_template_of_parts_takes_parts(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.tokenizer, "chat_template", PARTS_TEMPLATE)
    two = [{"role": "user", "content": [{"type": "text", "text": "One."}, {"text": "Two."}]}]
    assert "user\nOne.\nTwo.\n<|im_end|>" in render(two, model.tokenizer)
    monkeypatch.setattr(model.tokenizer, "chat_template", ADDING_TEMPLATE)
    assert render(two, model.tokenizer) == "user: One.\nTwo."


@pytest.mark.parametrize("missing", [{"content": None}, {}, {"content": []}])
def test_a_turn_without_content(model: LanguageModel, missing: dict[str, Any]) -> None:
    calls = [{"type": "function", "function": {"name": "search", "arguments": {}}}]
    turns = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "tool_calls": calls, **missing},
        {"role": "tool", "content": "Nobody."},
    ]
    rendered = render(turns, model.tokenizer)
    assert "None" not in rendered and "[]" not in rendered
    assert rendered.endswith("Nobody.<|im_end|>\n<|im_start|>assistant\n")


def test_a_template_that_refuses_is_named(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for template in ("{{ raise_exception('no system') }}", "{{ 1 + 'a' }}", "{{ messages.x.y }}"):
        monkeypatch.setattr(model.tokenizer, "chat_template", template)
        with pytest.raises(InvalidInput, match="cannot be rendered"):
            render(messages(), model.tokenizer)


@pytest.mark.parametrize("begun", ["In the", "Answer:", "- "])
@pytest.mark.parametrize("whole", [False, True])
def test_an_answer_that_continues_a_message(model: LanguageModel, begun: str, whole: bool) -> None:
    prompt = [*messages(), {"role": "assistant", "content": begun}]
    rendered_prompt = model.tokenizer.apply_chat_template(
        prompt, tokenize=False, continue_final_message=True
    )
    attributor = attributor_of(model)
    with attributor.recorder:
        say(model, [str(rendered_prompt)], [ANSWER])
    attribution = attributor.attribute(prompt, begun + ANSWER if whole else ANSWER, DOCUMENTS)
    assert not attribution.provenance.retokenized
    assert attribution.response.strip() == ANSWER.strip()
    assert not any("recorded" in note for note in attribution.notes)


def seen_with_tools(rendered: str) -> str:
    return "<|im_start|>system\nTools: search(query)<|im_end|>\n" + rendered


def seen_at_another_time(rendered: str) -> str:
    return rendered.replace("<|im_start|>user\n", "<|im_start|>user\nToday is 3 May.\n", 1)


def seen_with_thinking(rendered: str) -> str:
    return rendered + "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("change", [seen_with_tools, seen_at_another_time, seen_with_thinking])
@pytest.mark.parametrize("as_ids", [False, True])
def test_a_recording_whose_template_was_given_more_is_used_and_told(
    model: LanguageModel, change: Any, as_ids: bool
) -> None:
    prompt = change(render(messages(), model.tokenizer))
    attributor = attributor_of(model)
    with attributor.recorder:
        say(model, [prompt], [ANSWER])
    response = model.encode(ANSWER) if as_ids else ANSWER
    attribution = attributor.attribute(messages(), response, DOCUMENTS)
    assert not attribution.provenance.retokenized
    assert attribution.provenance.prompt_tokens == len(model.encode_prompt(prompt))
    (note,) = [note for note in attribution.notes if "recorded generation" in note]
    assert "was used" in note and "differ at character" in note


@pytest.mark.parametrize(
    "change", [lambda text: text[40:], str.upper, lambda text: text + "Well, "]
)
def test_a_recording_of_another_prompt_is_told_and_not_used(
    model: LanguageModel, change: Any
) -> None:
    prompt = render(messages(), model.tokenizer)
    attributor = attributor_of(model)
    with attributor.recorder:
        say(model, [change(prompt)], [ANSWER])
    attribution = attributor.attribute(prompt, ANSWER, DOCUMENTS)
    assert attribution.provenance.retokenized
    (note,) = [note for note in attribution.notes if "recorded generation" in note]
    assert "token ids that the model was given" in note
