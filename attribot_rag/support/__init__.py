"""Whether retrieved text says a sentence: the text that caused it, or any."""

from attribot_rag.support.reading import passages_saying, word_weight
from attribot_rag.support.support import Likelihoods, Passage, Retrieved, Stated, with_support

__all__ = [
    "Likelihoods",
    "Passage",
    "Retrieved",
    "Stated",
    "passages_saying",
    "with_support",
    "word_weight",
]
