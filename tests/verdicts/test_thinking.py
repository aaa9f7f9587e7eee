"""The thinking in an answer, by the tokenizer's own words, by its tags, and by the user's."""

from functools import cache

import pytest
from support.tiny_models import byte_tokenizer, endless

from attribot_rag import VerdictOptions
from attribot_rag.attribution import ResponseText, Verdict
from attribot_rag.context import TokenizedText
from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.result.remarks import remark_on
from attribot_rag.verdicts.sentences import Tags, sentences_of, thinking_in, thinking_of

THOUGHT, ANSWER = "Is it so? It says so.", "It is old."


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("<THINKING>", "</THINKING>"),
        ("[THOUGHT]", "[/THOUGHT]"),
        ("◁thinking▷", "◁/thinking▷"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        (
            "<|channel|>commentary<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
    ],
)
def test_tags_that_models_use(opened: str, closed: str) -> None:
    text = f"{opened}\n{THOUGHT}{closed}\n{ANSWER}"
    ((start, end),) = thinking_in(text)
    assert (start, text[end:].lstrip()) == (0, ANSWER)
    assert thinking_in(f"{opened}{THOUGHT}") == [(0, len(opened + THOUGHT))]


@pytest.mark.parametrize("answer", ["Answer:", "Final Answer:"])
def test_the_thought_of_an_agent_that_thinks_in_text(answer: str) -> None:
    text = f"Thought: {THOUGHT}\nSo it is.\n{answer} {ANSWER}"
    ((start, end),) = thinking_in(text)
    assert (start, text[end:]) == (0, ANSWER)
    assert thinking_in(f"Thought: {ANSWER}") == thinking_in(f"The answer: {ANSWER}") == []


@pytest.mark.parametrize(
    "text", ["I think <b>so</b>.", "See [thinking] there.", "A <thought> is short.", "[1] It is."]
)
def test_text_that_is_no_thinking(text: str) -> None:
    assert thinking_in(text) == []


def test_tags_by_the_user() -> None:
    text = f"<plan>{THOUGHT}</plan> {ANSWER}"
    assert thinking_in(text) == []
    assert thinking_in(text, ("<plan>", "</plan>")) == [(0, text.index(ANSWER))]
    with pytest.raises(InvalidInput, match="thinking_tags"):
        VerdictOptions(thinking_tags=("<plan>", ""))


@cache
def model(*special: str) -> LocalModel:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    return endless(tokenizer)


def answer_in(raw: str, language_model: LocalModel, tags: Tags | None = None) -> str:
    """A response without its thinking, as it is shown without special tokens."""
    ids = tuple(language_model.encode(raw))
    shown = TokenizedText.of(ids, language_model, skip_special_tokens=True).aligned(None)
    response = ResponseText(*shown)
    prompt = tuple(language_model.encode("Why?"))
    thinking = thinking_of(response, Generation(prompt, ids), language_model, tags)
    kept = [
        sentence
        for sentence in sentences_of(response, thinking=thinking)
        if not sentence.is_thinking
    ]
    assert len(kept) < len(sentences_of(response, thinking=thinking))
    return "".join(sentence.text for sentence in kept)


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("[THINK]", "[/THINK]"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
    ],
)
def test_tags_that_are_special_tokens_are_not_shown(opened: str, closed: str) -> None:
    language_model = model(opened, closed)
    assert answer_in(f"{opened}{THOUGHT}{closed} {ANSWER}", language_model) == ANSWER
    assert answer_in(f"{THOUGHT}{closed}{ANSWER}", language_model) == ANSWER


def test_channels_of_special_tokens() -> None:
    language_model = model("<|channel|>", "<|message|>", "<|end|>", "<|start|>")
    raw = (
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{ANSWER}"
    )
    assert answer_in(raw, language_model) == ANSWER


def test_the_tokenizer_s_own_tags_come_first() -> None:
    language_model = model("<§>")
    template = {
        "start_anchor": "<never>",
        "fields": {"thinking": {"open": "<plan>", "close": "<§>", "optional": True}, "content": {}},
    }
    language_model.tokenizer.response_template = template
    assert answer_in(f"<plan>{THOUGHT}<§>{ANSWER}", language_model) == ANSWER


def test_a_sentence_that_follows_from_thinking_says_so() -> None:
    verdicts = (
        Verdict(start=0, end=5, kind="reasoning"),
        Verdict(start=5, end=9, kind="follows", follows=0),
        Verdict(start=9, end=12, kind="follows", follows=1),
    )
    assert [remark_on(verdict, verdicts, 0) for verdict in verdicts] == [
        "",
        "follows from the model's own reasoning",
        "follows from sentence 1",
    ]
