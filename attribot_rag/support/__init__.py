"""Whether retrieved text says a sentence: the text that caused it, or any other."""

from attribot_rag.support.by_words import ByWords
from attribot_rag.support.support import (
    Likelihoods,
    Passage,
    Retrieved,
    Stated,
    with_support,
)
from attribot_rag.support.wording import Word, Wording

__all__ = [
    "ByWords",
    "Likelihoods",
    "Passage",
    "Retrieved",
    "Stated",
    "Word",
    "Wording",
    "with_support",
]
