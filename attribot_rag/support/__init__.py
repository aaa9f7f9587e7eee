"""Whether retrieved text says a sentence: the text that caused it, or any."""

from attribot_rag.support.reading import SentenceWords, passages_saying, word_weight
from attribot_rag.support.support import Retrieved, with_support

__all__ = ["Retrieved", "SentenceWords", "passages_saying", "with_support", "word_weight"]
