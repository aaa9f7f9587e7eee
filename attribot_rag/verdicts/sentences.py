"""The judged sentences of an answer, and the model's thinking before them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from attribot_rag.context import TokenizedText
from attribot_rag.context.splitting.splitter import language_of, make_splitter
from attribot_rag.context.text import (
    Interval,
    asks,
    at,
    blank_list_numbers,
    merge,
    numbers,
    overlapping,
    subtract,
    words,
)
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.result import ResponseText
from attribot_rag.result.answer_text import AnswerMarks, segments
from attribot_rag.verdicts.markers import MarkedAnswer

if TYPE_CHECKING:
    from attribot_rag.model.generation import Generation

_REPLIES = (
    r"sure(?: thing)?|certainly|of course|absolutely|ok(?:ay)?|great|hello|hi|hey|goodbye|bye",
    r"you(?:'re| are) welcome|no problem|good (?:morning|afternoon|evening|day)",
    r"(?:that's an? |that is an? )?(?:good|great|excellent|interesting) question",
    r"(?:i'm |i am )?(?:happy|glad) to help(?: you)?(?: with that)?",
    r"(?:thanks|thank you)(?: so much| very much)?(?: for (?:asking|reaching out|"
    r"(?:your|the|this) (?:question|message|request|inquiry|interest|patience)))?",
)
# The rest of an offer, without figures and clauses, which could state a fact.
_REST = r"[^\d,.:;!?]*"
_OFFERS = (
    r"(?:(?:i|we) )?hope (?:this|that|it)(?: information| answer)? (?:helps?(?: you)?(?: out)?"
    r"|(?:is|was) (?:helpful|useful)(?: (?:to|for) you)?|answers your questions?)",
    r"(?:(?:please|just) )*(?:feel free to ask|do(?: not|n't) hesitate to ask|let me know|ask"
    r"|(?:feel free to|do(?: not|n't) hesitate to) (?:contact|reach out)(?: to)?(?: me| us)?)"
    r"(?: (?:more |further |any )?questions?| away| anytime| (?:if|should) you " + _REST + ")?",
    r"if you (?:have (?:any )?(?:other |more |further |additional )*(?:questions?|concerns?)"
    r"|(?:need|want) (?:anything else|(?:any )?(?:more|further) (?:help|information)))" + _REST,
    r"is there (?:anything else|any other question)(?: (?:that )?(?:i|we|you)\b" + _REST + ")?",
    r"how (?:can|may) (?:i|we) (?:help|assist) you(?: today| with that| further)?",
    r"(?:would you like|do you want) (?:to know (?:more|anything else)|me to )" + _REST,
    r"here(?: is|'s| are) (?:the|your|an?) (?:answers?|response|information)(?: to your questions?"
    r"|(?: that)? you (?:asked for|requested|need(?:ed)?))?",
    r"have an? (?:nice|good|great|lovely|wonderful) (?:day|evening|night|weekend|time|trip|one)"
    r"(?: ahead)?",
)
_PLEASANTRY = re.compile(
    rf"(?:(?:{'|'.join(_REPLIES)})(?: there)?(?:[\s,.!]+|\Z)"
    rf"|(?:{'|'.join(_OFFERS)})(?:\s*[,.:;!?]+\s*|\Z))+",
    re.IGNORECASE,
)
_APPEAL = re.compile(rf"\W*please {_REST}!\W*", re.IGNORECASE)
_REFERENCES = re.compile(r"(?:see|sources?|references?|citations?)", re.IGNORECASE)
# A Markdown heading, perhaps with its own number.
_HEADING = re.compile(
    r"#{1,6}[ \t]+(?:(?:\d+[.)]|\d+(?:\.\d+)+)[ \t]+)?(?P<title>[^\n]+)"
    r"|(?P<underlined>[^\n]+)\n {0,3}=+|(?P<marks>\*\*|__)(?P<bold>[^*_\n]+)(?P=marks)[:：]?"
    r"|(?P<columns>[^\n]*\|[^\n]*)\n[\s|:+-]*-[\s|:+-]*"
)
_INTRODUCES = re.compile(r"\D*[:：][*_\s]*")
_ITEM = re.compile(r"\s*(?:[-*+•>|]|\(?(?:\d{1,3}|[A-Za-z])[.)]\s)")
_TITLES = ("title", "underlined", "bold", "columns")
_LABEL = re.compile(r"\A\W*[^\W\d_]+\W*[:：]")
_STATES = re.compile(r"\d|[.!。！।]\W*\Z")
_ENDED = re.compile(r"[.!?:;…。！？：；．؟।॥։።]\W*\Z")
_FIRST_TO_LAST_WORD = re.compile(r"[^\W_](?:.*[^\W_])?")


@dataclass(frozen=True)
class AnswerSentence:
    """Characters [start, end) of the response.

    `text` has its markers, `plain_text` does not. `tokens` are the indices of its tokens without
    markers, and `figures` those of each number in it. It is trivial if there is nothing to judge,
    and complete if punctuation ends it.
    """

    start: int
    end: int
    text: str
    tokens: tuple[int, ...]
    is_thinking: bool
    is_trivial: bool = False
    is_complete: bool = True
    figures: tuple[tuple[int, ...], ...] = ()
    plain_text: str = ""

    @property
    def is_judged(self) -> bool:
        return bool(self.tokens) and not (self.is_thinking or self.is_trivial)


def is_trivial(text: str) -> bool:
    """Whether a sentence has nothing to judge, without its markers.

    It has no word except "Sources", or is a pleasantry (in English); yes or no is an answer. A
    Markdown heading, a bold line or the head of a table is trivial too, unless it has a number or
    ends as a statement does.
    """
    heading = _HEADING.fullmatch(text.strip())
    if heading and not _STATES.search(next(filter(None, map(heading.group, _TITLES)), "")):
        return True
    text = " ".join(text.split()).replace("\u2019", "'")
    found = _FIRST_TO_LAST_WORD.search(text)
    return (
        found is None
        or _APPEAL.fullmatch(text) is not None
        or any(pattern.fullmatch(found.group()) for pattern in (_PLEASANTRY, _REFERENCES))
    )


def _repeats(text: str, question: str) -> bool:
    """Whether a text repeats the question, perhaps after a label such as "Query:"."""
    asked = _LABEL.sub("", text).strip()
    return asks(asked) and {*words(asked.casefold())} <= {*words(question.casefold())}


def sentences_of(
    response: ResponseText,
    marked: MarkedAnswer | None = None,
    thinking: Sequence[Interval] = (),
    language: str | None = None,
    question: str = "",
) -> list[AnswerSentence]:
    """The response's sentences, in order. A marker after a full stop belongs to its sentence.

    Each value of JSON is a sentence, and the text between values has no tokens. The language (ISO
    639-1) is detected if it is not given. A sentence that repeats the `question` is trivial.
    """
    text = response.text
    marks = marked.marks if marked else AnswerMarks()
    splitter = make_splitter("sentence", language or language_of(text))
    edges = sorted({0, len(text), *chain.from_iterable(thinking)})
    result: list[AnswerSentence] = []
    for part in pairwise(edges):
        for (start, end), is_told in segments(text, *part, splitter, marks):
            own = overlapping(marks.all, (start, end))
            without = "".join(text[first:last] for first, last in subtract((start, end), own))
            in_marks = {index for span in own for index in response.tokens_in(*span)}
            columns = response.tokens_in(start, end) if is_told else ()
            tokens = tuple(i for i in columns if i not in in_marks)
            # A list item, a table or a marker begins here: the colon before introduces it.
            leads = at(marks.leading, start) and text[start] != "<"
            is_introduced = result and _INTRODUCES.fullmatch(result[-1].plain_text)
            if is_introduced and (leads or _ITEM.match(text, start)):
                result[-1] = replace(result[-1], is_trivial=True)
            result.append(
                AnswerSentence(
                    start,
                    end,
                    text[start:end],
                    tokens,
                    is_thinking=part in thinking,
                    is_trivial=not is_told or is_trivial(without) or _repeats(without, question),
                    is_complete=_ENDED.search(without) is not None,
                    figures=tuple(_figures(response, start, end, frozenset(tokens))),
                    plain_text=blank_list_numbers(without),
                )
            )
    return result


def _figures(
    response: ResponseText, start: int, end: int, tokens: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """The tokens of each number in [start, end), among these tokens."""
    for match in numbers(response.text, start, end):
        of_number = tuple(index for index in response.tokens_in(*match.span()) if index in tokens)
        if of_number:
            yield of_number


Tags = tuple[str, str]

# Names that models give to their thinking, in any brackets: <think>, [THINK], <seed:think>,
# <|START_THINKING|>, <|begin_of_thought|>.
_NAME = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)"
_OPEN = rf"[<\[\u25c1]\|?(?:\w+:)?(?:start_|begin_of_)?{_NAME}\|?[>\]\u25b7]"
_CLOSE = rf"[<\[\u25c1]\|?(?:/(?:\w+:)?|end_|end_of_){_NAME}\|?[>\]\u25b7]"
# Channels: all except the last are thinking, and so is the head of the last.
_CHANNELS = re.compile(
    r"(?:<\|start\|>\w+)?<\|channel\|>(?!final\b).*?"
    r"(?:(?:<\|start\|>\w+)?<\|channel\|>final\b.*?<\|message\|>|\Z)"
    r"|\A<\|channel\|>final\b.*?<\|message\|>",
    re.DOTALL,
)
# The text before the answer of agents that think in text.
_THOUGHT = re.compile(r"\A\s*Thought:.*?\n\s*(?:Final )?Answer:\s*(?=\S)", re.DOTALL)
_FIELDS = ("thinking", "reasoning_content", "reasoning")


def thinking_in(text: str, tags: Tags | None = None) -> list[Interval]:
    """Characters of the thinking in a text, with its tags and the white space after it.

    `tags` open and close it; by default those that models use. A text that begins with it and does
    not close it is all thinking. Some templates open the thinking in the prompt, so a text may have
    only its end.
    """
    opened, closed = map(re.escape, tags) if tags else (_OPEN, _CLOSE)
    tagged = re.compile(
        rf"(?:\A\s*)?{opened}.*?{closed}\s*|\A\s*{opened}.*|\A(?:(?!{opened}).)*?{closed}\s*",
        re.DOTALL | re.IGNORECASE,
    )
    patterns = (tagged,) if tags else (tagged, _CHANNELS, _THOUGHT)
    return merge(match.span() for pattern in patterns for match in pattern.finditer(text))


def fragment_of(
    sentences: Sequence[AnswerSentence], generation: Generation, text: str
) -> int | None:
    """Index of the sentence at which the answer was cut off; None for a complete answer."""
    if not generation.unfinished or text.endswith("\n"):
        return None
    last = max((i for i, each in enumerate(sentences) if each.tokens), default=None)
    return None if last is None or sentences[last].is_complete else last


def thinking_of(
    response: ResponseText,
    generation: Generation,
    language_model: LanguageModel,
    tags: Tags | None = None,
) -> list[Interval]:
    """The characters of the thinking in a response.

    It is found by `tags`, else by the tokenizer's response template, else by the tags that models
    use. Tags may be special tokens, which are not shown, so the response is decoded with them.
    """
    ids = generation.response_ids
    decoded = TokenizedText.of(ids, language_model)
    thinking = None if tags else _parsed(decoded.text, generation, language_model)
    if thinking is None:
        if decoded.text.strip() == response.text.strip():
            return thinking_in(response.text, tags)
        thinking = thinking_in(decoded.text, tags)
    shown = (_response_span(response, decoded, interval) for interval in thinking)
    return merge((start, end) for start, end in shown if start < end)


def _response_span(response: ResponseText, decoded: TokenizedText, interval: Interval) -> Interval:
    """The characters of the response for an interval of the decoded text."""
    spans = [response.token_spans[token] for token in decoded.tokens_in(interval)]
    if not spans:
        return (0, 0)
    end = spans[-1][1]
    return spans[0][0], end + len(response.text[end:]) - len(response.text[end:].lstrip())


def _parsed(
    text: str, generation: Generation, language_model: LanguageModel
) -> Sequence[Interval] | None:
    """The thinking by the tokenizer's response template; None without a matching template."""
    tokenizer = language_model.tokenizer
    if getattr(tokenizer, "response_template", None) is None:
        return None
    prompt = language_model.decode(generation.prompt_ids)
    try:
        message = tokenizer.parse_response(text, prefix=prompt)
    except (TypeError, ValueError):  # another form of template, or an answer that does not fit
        return None
    thinking = next((message[name] for name in _FIELDS if message.get(name)), "")
    content = message.get("content") or ""
    start = text.find(thinking)
    if not thinking or start < 0 or not isinstance(content, str):
        return [] if content and not thinking else None
    answer = text.find(content, start + len(thinking)) if content else len(text)
    return None if answer < 0 else [(0, answer)]
