"""The thinking in an answer: what the model wrote for itself before it answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from attribot_rag.context import TokenizedText
from attribot_rag.context.intervals import Interval, merge
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.result import ResponseText

Tags = tuple[str, str]

# Names that models give their thinking, in brackets of any kind: <think>, [THINK], <seed:think>,
# <|START_THINKING|>, <|begin_of_thought|>.
_NAME = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)"
_OPEN = rf"[<\[\u25c1]\|?(?:\w+:)?(?:start_|begin_of_)?{_NAME}\|?[>\]\u25b7]"
_CLOSE = rf"[<\[\u25c1]\|?(?:/(?:\w+:)?|end_|end_of_){_NAME}\|?[>\]\u25b7]"
# Channels: all of them but the last are thinking, with the head of the last.
_CHANNELS = re.compile(
    r"(?:<\|start\|>\w+)?<\|channel\|>(?!final\b).*?"
    r"(?:(?:<\|start\|>\w+)?<\|channel\|>final\b.*?<\|message\|>|\Z)"
    r"|\A<\|channel\|>final\b.*?<\|message\|>",
    re.DOTALL,
)
_FIELDS = ("thinking", "reasoning_content", "reasoning")


def thinking_in(text: str, tags: Tags | None = None) -> list[Interval]:
    """Characters of the thinking in a text, with its tags and the white space after it.

    `tags` open and close it; by default those that models use. A text that begins with it and does
    not close it is all thinking. Some templates open the thinking in
    the prompt, so that a text may hold its end alone.
    """
    opened, closed = map(re.escape, tags) if tags else (_OPEN, _CLOSE)
    tagged = re.compile(
        rf"(?:\A\s*)?{opened}.*?{closed}\s*|\A\s*{opened}.*|\A(?:(?!{opened}).)*?{closed}\s*",
        re.DOTALL | re.IGNORECASE,
    )
    channels = () if tags else (match.span() for match in _CHANNELS.finditer(text))
    return merge(chain((match.span() for match in tagged.finditer(text)), channels))


def thinking_of(
    response: ResponseText,
    generation: Generation,
    language_model: LanguageModel,
    tags: Tags | None = None,
) -> list[Interval]:
    """Characters of the thinking in a response as it was shown.

    By `tags`, else by what the tokenizer says of the model's answers, else by the tags that models
    use. Tags may be special tokens, which are not shown; so the response is read with them.
    """
    ids = generation.response_ids
    seen = TokenizedText.of(ids, language_model)
    found = None if tags else _parsed(seen.text, generation, language_model)
    if found is None:
        if seen.text.strip() == response.text.strip():
            return thinking_in(response.text, tags)
        found = thinking_in(seen.text, tags)
    shown = (_shown(response, seen, interval) for interval in found)
    return merge((start, end) for start, end in shown if start < end)


def _shown(response: ResponseText, seen: TokenizedText, interval: Interval) -> Interval:
    """The characters of the response whose tokens stand in an interval of what was decoded."""
    tokens = seen.tokens_in(interval)
    spans = [response.token_spans[token] for token in tokens]
    if not spans:
        return (0, 0)
    end = spans[-1][1]
    return spans[0][0], end + len(response.text[end:]) - len(response.text[end:].lstrip())


def _parsed(
    text: str, generation: Generation, language_model: LanguageModel
) -> Sequence[Interval] | None:
    """The thinking by the tokenizer's response template; None without one, or if it cannot tell."""
    tokenizer = language_model.tokenizer
    if getattr(tokenizer, "response_template", None) is None:
        return None
    prompt = language_model.decode(generation.prompt_ids)
    try:
        message = tokenizer.parse_response(text, prefix=prompt)
    except (TypeError, ValueError):  # another form of template, or an answer that does not fit it
        return None
    thinking = next((message[name] for name in _FIELDS if message.get(name)), "")
    content = message.get("content") or ""
    start = text.find(thinking)
    if not thinking or start < 0 or not isinstance(content, str):
        return [] if content and not thinking else None
    answer = text.find(content, start + len(thinking)) if content else len(text)
    return None if answer < 0 else [(0, answer)]
