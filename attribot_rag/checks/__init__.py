"""A check of text: values of an answer's sentences against the texts that they cite."""

from attribot_rag.checks.answer_check import with_checks
from attribot_rag.checks.sentence_check import CitedText, check_sentence

__all__ = ["CitedText", "check_sentence", "with_checks"]
