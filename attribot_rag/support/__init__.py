"""Whether retrieved text says a sentence: the text that caused it, or any."""

from attribot_rag.support.reading import passages_saying, word_weight
from attribot_rag.support.support import Likelihoods, Passage, Retrieved, Stated, with_support
from attribot_rag.support.wording import Word, Wording

__all__ = [
    "Likelihoods",
    "Passage",
    "Retrieved",
    "Stated",
    "Word",
    "Wording",
    "passages_saying",
    "with_support",
    "word_weight",
]
