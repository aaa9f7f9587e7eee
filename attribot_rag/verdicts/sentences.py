"""The sentences of an answer that are judged, and those that are not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attribot_rag.attribution import Attribution
from attribot_rag.context.splitting import sentences, split_spans
from attribot_rag.verdicts.markers import MARKER

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_PLEASANTRY = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|ok(?:ay)?|yes|no|great|hello|hi|hey|thanks|"
    r"thank you(?: for .*)?|you(?:'re| are) welcome|good (?:morning|evening|day|question)|"
    r"great question|happy to help|glad to help|goodbye|bye)(?: there)?[\s,.!]*)+"
    r"|(?:i|we) hope (?:this|that|it) (?:helps|is helpful|answers).*"
    r"|(?:please )?(?:feel free to|do not hesitate to|don't hesitate to|let me know).*"
    r"|(?:is there|if you have|if there is) any(?:thing)?.*"
    r"|here (?:is|are|'s) (?:the|your|an?) (?:answer|response|information)[^:]*:?"
    r"|have a (?:nice|good|great|lovely) .*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sentence:
    """Characters [start, end) of the response; `tokens` are its columns without its markers."""

    start: int
    end: int
    text: str
    tokens: tuple[int, ...]
    thinking: bool

    @property
    def trivial(self) -> bool:
        """Whether there is nothing to judge: a pleasantry (in English), or no word at all.

        A single yes or no is an answer, not a pleasantry.
        """
        words = MARKER.sub("", self.text).strip(" \t\r\n.!*-\"'")
        if words.casefold() in ("yes", "no"):
            return False
        return not any(map(str.isalnum, words)) or bool(_PLEASANTRY.fullmatch(words))


def sentences_of(attribution: Attribution) -> list[Sentence]:
    """The response's sentences, in order; a marker after a full stop belongs to what it marks."""
    response = attribution.response
    spans: list[tuple[int, int]] = []
    for start, end in split_spans(response, sentences):
        words = MARKER.sub("", response[start:end])
        if spans and not any(map(str.isalnum, words)):
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    thinking = [match.span() for match in _THINKING.finditer(response)]
    found = []
    for start, end in spans:
        markers = [match.span() for match in MARKER.finditer(response, start, end)]
        marked = {index for span in markers for index in attribution.tokens_in(*span)}
        tokens = tuple(i for i in attribution.tokens_in(start, end) if i not in marked)
        inside = any(first < end and start < last for first, last in thinking)
        found.append(Sentence(start, end, response[start:end], tokens, inside))
    return found
