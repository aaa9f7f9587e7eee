"""Messages as applications write them, and recordings of prompts that hold more than messages."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, messages, say
from support.tiny_models import byte_level

from attribot_rag import Attributor, LeaveOneOut
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import (
    message_role,
    message_text,
    readable,
    render,
    verbatim_texts,
    with_texts,
)

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


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


PLAIN = block("document", source=block("text", media_type="text/plain", data="D"), title="T")
CONTENT = block("document", source=block("content", content=[block("text", text="D")]))
FOUND = block("search_result", source="https://a.example", title="T", content=[{"text": "D"}])
SCAN = block("document", source=block("base64", media_type="application/pdf", data="JVBERi0="))
PICTURE = block("image", source=block("base64", media_type="image/png", data="iVBORw0="))
SHAPES: dict[str, tuple[Any, str, str]] = {
    "Anthropic's documents": (
        {"role": "user", "content": [PLAIN, CONTENT, SCAN, PICTURE, block("text", text="Q")]},
        "user",
        "T\nD\nD\nQ",
    ),
    "Anthropic's search results": (
        {"role": "user", "content": [FOUND]},
        "user",
        "T\nhttps://a.example\nD",
    ),
    "Anthropic's tool result": (
        {"role": "user", "content": [block("tool_result", tool_use_id="1", content="D")]},
        "tool",
        "D",
    ),
    "Anthropic's tool result of blocks": (
        {"role": "user", "content": [block("tool_result", content=[FOUND, {"text": "E"}])]},
        "tool",
        "T\nhttps://a.example\nD\nE",
    ),
    "Anthropic's thinking and call": (
        {"role": "assistant", "content": [block("thinking", thinking="H"), block("tool_use")]},
        "assistant",
        "",
    ),
    "an item of Responses": (
        block("message", role="user", content=[block("input_text", text="Q")]),
        "user",
        "Q",
    ),
    "a call": (block("function_call", name="search", arguments="{}"), "assistant", ""),
    "reasoning": (block("reasoning", summary=[{"text": "H"}], content=[]), "assistant", ""),
    "an output": (block("function_call_output", call_id="1", output="D"), "tool", "D"),
    "an output of parts": (
        block("function_call_output", output=[block("input_text", text="D"), {"text": "E"}]),
        "tool",
        "D\nE",
    ),
    "a search of files": (block("file_search_call", results=[{"text": "D"}]), "tool", "D"),
    "Gemini's parts": ({"role": "model", "parts": [{"text": "A"}]}, "assistant", "A"),
    "Gemini's response": (
        {"role": "user", "parts": [{"function_response": {"response": {"result": "D"}}}]},
        "tool",
        "D",
    ),
    "Gemini's response of values": (
        {"role": "user", "parts": [{"functionResponse": {"response": {"a": ["D", 2]}}}]},
        "tool",
        '{"a": ["D", 2]}',
    ),
    "an object with a type": (SimpleNamespace(type="human", content="Q"), "user", "Q"),
    "a chunk": (SimpleNamespace(type="AIMessageChunk", content=[{"text": "A"}]), "assistant", "A"),
    "LangChain's files": (
        SimpleNamespace(
            type="human",
            content=[
                block("file", source_type="base64", mime_type="application/pdf", data="JVBERi0="),
                block("text-plain", mime_type="text/plain", text="D", title="T"),
                block("non_standard", value=block("search_result", title="U", content=["E"])),
                "Q",
            ],
        ),
        "user",
        "T\nD\nU\nE\nQ",
    ),
    "an object of blocks": (
        SimpleNamespace(role=SimpleNamespace(value="user"), blocks=[SimpleNamespace(text="Q")]),
        "user",
        "Q",
    ),
    "citable blocks": (
        SimpleNamespace(
            role="user",
            blocks=[
                SimpleNamespace(
                    block_type="citable", title="T", source="S", content=[SimpleNamespace(text="D")]
                ),
                SimpleNamespace(block_type="thinking", content="H"),
                SimpleNamespace(block_type="document", data=b"D", title=None),
            ],
        ),
        "user",
        "T\nS\nD",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_of_every_shape_are_read_and_cut(shape: str) -> None:
    message, role, text = SHAPES[shape]
    before = deepcopy(message)
    assert (message_role(message), message_text(message)) == (role, text)
    assert verbatim_texts([message]) == ([text] if role != "assistant" else [])
    lower = with_texts(message, str.lower)
    assert type(lower) is type(message) and message_text(lower) == text.lower()
    assert message == before
    rendered = render([message, {"role": "user", "content": "?"}], MODEL.tokenizer)
    assert f"<|im_start|>{role}\n{text}<|im_end|>" in rendered
