"""Messages as applications write them, and recordings of prompts that hold more than messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, messages, say
from support.tiny_models import byte_level

from attribot_rag import Attributor, LeaveOneOut
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import message_text, readable, render

PARTS_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{{ part['text'] }}\n{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ADDING_TEMPLATE = "{{ messages[0]['role'] + ': ' + messages[0]['content'] }}"


def in_parts(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]


MODEL = byte_level()


def recording(prompt: str) -> Attributor:
    """An attributor that saw the answer to this prompt."""
    attributor = Attributor(MODEL, method=LeaveOneOut(), verdicts=None, progress=False)
    with attributor.recorder:
        say(MODEL, [prompt], [ANSWER])
    return attributor


def test_parts_are_the_same_prompt_as_their_text() -> None:
    texts = ("Be brief.", "条約は?", "町で。", "Grüße aus 1648!")
    roles = ("system", "user", "assistant", "user")
    turns = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    assert render(in_parts(turns), MODEL.tokenizer) == render(turns, MODEL.tokenizer)
    assert [message_text(turn) for turn in in_parts(turns)] == list(texts)


def test_a_template_of_parts_takes_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODEL.tokenizer, "chat_template", PARTS_TEMPLATE)
    two = [{"role": "user", "content": [{"type": "text", "text": "One."}, {"text": "Two."}]}]
    assert "user\nOne.\nTwo.\n<|im_end|>" in render(two, MODEL.tokenizer)
    monkeypatch.setattr(MODEL.tokenizer, "chat_template", ADDING_TEMPLATE)
    assert render(two, MODEL.tokenizer) == "user: One.\nTwo."


@pytest.mark.parametrize("missing", [{"content": None}, {}, {"content": []}])
def test_a_turn_without_content(missing: dict[str, Any]) -> None:
    calls = [{"type": "function", "function": {"name": "search", "arguments": {}}}]
    turns = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "tool_calls": calls, **missing},
        {"role": "tool", "content": "Nobody."},
    ]
    rendered = render(turns, MODEL.tokenizer)
    assert "None" not in rendered and "[]" not in rendered
    assert rendered.endswith("Nobody.<|im_end|>\n<|im_start|>assistant\n")


def test_a_template_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for template in ("{{ raise_exception('no system') }}", "{{ 1 + 'a' }}", "{{ messages.x.y }}"):
        monkeypatch.setattr(MODEL.tokenizer, "chat_template", template)
        with pytest.raises(InvalidInput, match="cannot be rendered"):
            render(messages(), MODEL.tokenizer)


@pytest.mark.parametrize("begun", ["In the", "- "])
@pytest.mark.parametrize("whole", [False, True])
def test_an_answer_that_continues_a_message(begun: str, whole: bool) -> None:
    prompt = [*messages(), {"role": "assistant", "content": begun}]
    rendered_prompt = MODEL.tokenizer.apply_chat_template(
        prompt, tokenize=False, continue_final_message=True
    )
    answer = begun + ANSWER if whole else ANSWER
    attribution = recording(str(rendered_prompt)).attribute(prompt, answer, DOCUMENTS)
    assert not attribution.provenance.retokenized
    assert attribution.response.strip() == ANSWER.strip()
    assert not any("recorded" in note for note in attribution.notes)


BEYOND_THE_MESSAGES = {
    "tools": lambda text: "<|im_start|>system\nTools: search(query)<|im_end|>\n" + text,
    "the time": lambda text: text.replace("user\n", "user\nToday is 3 May.\n", 1),
    "thinking": lambda text: text + "<think>\n\n</think>\n\n",
}


@pytest.mark.parametrize("more", BEYOND_THE_MESSAGES)
def test_a_recording_whose_template_got_more_is_used_and_noted(more: str) -> None:
    prompt = BEYOND_THE_MESSAGES[more](render(messages(), MODEL.tokenizer))
    attribution = recording(prompt).attribute(messages(), ANSWER, DOCUMENTS)
    assert not attribution.provenance.retokenized
    assert attribution.provenance.prompt_tokens == len(MODEL.encode_prompt(prompt))
    (note,) = [note for note in attribution.notes if "recorded generation" in note]
    assert "was used" in note and "differ at character" in note


@pytest.mark.parametrize(
    "change", [lambda text: text[40:], str.upper, lambda text: text + "Well, "]
)
def test_a_recording_of_another_prompt_is_noted_and_not_used(change: Any) -> None:
    prompt = render(messages(), MODEL.tokenizer)
    attribution = recording(change(prompt)).attribute(prompt, ANSWER, DOCUMENTS)
    assert attribution.provenance.retokenized
    (note,) = [note for note in attribution.notes if "recorded generation" in note]
    assert "token ids that the model was given" in note


SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is the mill?"},
    {"role": "tool", "content": "The mill is in Orrin."},
]
REFUSING = "{{ raise_exception('no tools here') if messages[-1]['role'] == 'tool' else '' }}"
WITHOUT_TOOLS = "{% for m in messages if m['role'] != 'tool' %}{{ m['content'] }}{% endfor %}"
ADAPTED = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('') }}{% endif %}"
    "[{{ m['content'] }}]{% endfor %}"
)


def test_a_template_that_takes_all_messages_is_given_them_as_they_are() -> None:
    assert readable(SAID, MODEL.tokenizer) is SAID
    assert readable(in_parts(SAID), MODEL.tokenizer) == in_parts(SAID)


@pytest.mark.parametrize("template", [WITHOUT_TOOLS, ADAPTED])
def test_messages_that_a_template_leaves_out_or_refuses_become_one(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODEL.tokenizer, "chat_template", template)
    text = "System: Be brief.\n\nUser: Where is the mill?\n\nTool: The mill is in Orrin."
    assert readable(in_parts(SAID), MODEL.tokenizer) == [{"role": "user", "content": text}]


@pytest.mark.parametrize("template", [REFUSING, None])
def test_without_a_template_that_holds_them_messages_are_a_text(
    template: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODEL.tokenizer, "chat_template", template)
    begun: list[Mapping[str, Any]] = [
        *SAID,
        {"role": "assistant", "content": None, "tool_calls": []},
    ]
    text = readable(begun, MODEL.tokenizer)
    assert isinstance(text, str) and text.endswith("Tool: The mill is in Orrin.\n\nAssistant:")
