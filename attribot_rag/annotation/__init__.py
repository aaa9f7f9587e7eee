"""Remarks on the sentences of an answer: the parts of annotators; stable and public.

An `Annotator` compares each sentence with the texts that it cites and gives `Check`s. No verdict,
citation or score depends on it. It is an option of whatever attributes:

    Attributor(model, annotator=MyAnnotator())

The default, `NumbersInDocuments`, needs no language. `sentences`, `words`, `same_word`,
`number_words`, `number_values`, `is_rounded`, `power_words` and `Visible` read texts as the rest of
the package does.
"""

from attribot_rag.annotation.annotation import AnnotatedSentence, Annotation, Annotator, CitedText
from attribot_rag.annotation.numbers import NumbersInDocuments, Visible, is_rounded
from attribot_rag.context.splitting.splitter import sentences
from attribot_rag.context.text import (
    UNSPACED,
    Interval,
    NumberWords,
    at,
    merge,
    number_values,
    number_words,
    power_words,
    same_word,
    words,
)
from attribot_rag.result import Check

__all__ = [
    "UNSPACED",
    "AnnotatedSentence",
    "Annotation",
    "Annotator",
    "Check",
    "CitedText",
    "Interval",
    "NumberWords",
    "NumbersInDocuments",
    "Visible",
    "at",
    "is_rounded",
    "merge",
    "number_values",
    "number_words",
    "power_words",
    "same_word",
    "sentences",
    "words",
]
