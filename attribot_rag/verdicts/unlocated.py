"""Documents not located in the prompt, as possible causes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribot_rag.context import Context
from attribot_rag.context.text import has_words, num_unspaced, words

_LEAST_STATED = 0.4
_STATEMENT_END = re.compile(r"(?<=[.!?。！？؟\n])")
_QUESTION_MARKS = ("?", "？", "؟")
_TAG = re.compile(r"<[^<>\s]{1,40}>")
_HIRAGANA = re.compile("[\u3040-\u309f]")  # endings and particles
_QUESTION_WORDS = 3
_LEAST_LETTERS = 4
_STEM = 5


def may_rest_on_unlocated(context: Context, sentence: str) -> bool:
    """Whether an unlocated or partly located document may have caused a sentence.

    Text of a document that was located in part, or was not looked for, may stand anywhere. A
    document of which nothing was located was most likely dropped, by a reranker for example. If it
    was put in other words instead, the rest of the prompt states what the sentence says: without
    its questions, it has 40 % of the sentence's numbers and longer words.
    """
    if context.unseen or not context.absent:
        return bool(context.unseen)
    stems = list(_stems(sentence))
    stated = {stem for statement in _statements(context.asked) for stem in _stems(statement)}
    return bool(stems) and sum(stem in stated for stem in stems) >= _LEAST_STATED * len(stems)


def _statements(asked: str) -> list[str]:
    """The sentences and lines but for questions; without a question, but for the last long one."""
    pieces = [piece.strip() for piece in _STATEMENT_END.split(_TAG.sub("\n", asked))]
    statements = [piece for piece in pieces if not piece.endswith(_QUESTION_MARKS)]
    if len(statements) == len(pieces):
        long = (i for i, piece in enumerate(pieces) if has_words(piece, _QUESTION_WORDS))
        del statements[max(long, default=0)]
    return statements


def _stems(text: str) -> Iterator[str]:
    """The beginnings of the longer words of a text, its numbers, and ideographs."""
    for word in words(_HIRAGANA.sub(" ", text.casefold())):
        if len(word) >= _LEAST_LETTERS or word.isdecimal() or num_unspaced(word):
            yield word[:_STEM]
