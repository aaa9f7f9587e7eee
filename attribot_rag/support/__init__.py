"""Whether retrieved text says a sentence: the text that caused it, or any other."""

from attribot_rag.support.by_words import ByWords
from attribot_rag.support.support import (
    Likelihoods,
    with_support,
)
from attribot_rag.support.wording import Claim, Passage, RetrievedText, Word, Wording

__all__ = [
    "ByWords",
    "Claim",
    "Likelihoods",
    "Passage",
    "RetrievedText",
    "Word",
    "Wording",
    "with_support",
]
