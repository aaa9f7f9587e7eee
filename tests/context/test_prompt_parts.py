"""Every character of a prompt that is no document's belongs to one of its other parts."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from support.scorers import other_chat
from support.tiny_models import byte_level

from attribot_rag import Document
from attribot_rag.attributor.prompts import turns_of
from attribot_rag.context import Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.model.language_model import Prompt

SALT, SHIP = "Salt is dear.", "The ship came."
DOCUMENTS = f"{SALT}\n\n{SHIP}"


def context_of(prompt: Prompt) -> Context:
    language_model = other_chat() if not isinstance(prompt, str) else byte_level()
    tokens = TokenizedText.of(language_model.encode_prompt(prompt), language_model)
    turns, message = turns_of(prompt)
    documents = [Document(SALT), Document(SHIP)]
    return locate_context(tokens, documents, ContextOptions(), earlier_turns=turns, message=message)


def parts_of(prompt: Prompt) -> dict[str, str]:
    context = context_of(prompt)
    return {
        name: "|".join(context.prompt.text[start:end] for start, end in spans)
        for name, spans in context.parts.items()
    }


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_of_a_plain_prompt_the_text_before_and_after_the_documents() -> None:
    parts = parts_of(f"Be brief.\n\n{DOCUMENTS}\n\nI pay 3. What does it cost?\nAnswer:")
    assert parts["instructions"].strip() == "Be brief."
    assert parts["question"].strip() == "I pay 3. What does it cost?\nAnswer:"
    assert parts["turn"] == ""


@pytest.mark.parametrize(
    ("messages", "instructions", "question", "turn"),
    [
        (
            [message("system", "You are Otis."), message("user", f"Read:\n{DOCUMENTS}\nWho?")],
            ["You are Otis.", "Read:"],
            ["Who?"],
            [],
        ),
        (
            [
                message("system", f"Read this.\n{DOCUMENTS}\nBe kind."),
                message("user", "I ask. Who?"),
            ],
            ["Read this.", "Be kind."],
            ["I ask. Who?"],
            [],
        ),
        (
            [
                message("user", "An example."),
                message("assistant", "Its answer."),
                message("user", f"{DOCUMENTS}\n\nWho?"),
            ],
            [],
            ["Who?"],
            ["An example.", "Its answer."],
        ),
        (
            [
                message("user", "Who came?"),
                message("assistant", "I look it up."),
                message("tool", f"Found 2:\n{DOCUMENTS}\nNothing more."),
            ],
            [],
            ["Who came?"],
            ["I look it up.", "Found 2:", "Nothing more."],
        ),
    ],
    ids=["in the message", "in the system message", "earlier turns", "a tool's answer"],
)
def test_of_messages(
    messages: list[dict[str, str]],
    instructions: Sequence[str],
    question: Sequence[str],
    turn: Sequence[str],
) -> None:
    parts = parts_of(messages)
    expected = {"instructions": instructions, "question": question, "turn": turn}
    for name, texts in expected.items():
        assert [text for text in texts if text not in parts[name]] == []
        others = [parts[other] for other in expected if other != name]
        assert not any(text in other for text in texts for other in others)


def test_the_parts_and_the_documents_are_the_whole_prompt() -> None:
    messages = [message("system", "You are Otis."), message("user", f"Read:\n{DOCUMENTS}\nWho?")]
    context = context_of(messages)
    spans = sorted(
        [*context.without_documents.characters, *(s for x in context.parts.values() for s in x)]
    )
    assert [spans[0][0], spans[-1][1]] == [0, len(context.prompt.text)]
    assert all(end == start for (_, end), (start, _) in pairwise(spans))
