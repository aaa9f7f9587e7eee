"""A check of text: values of an answer's sentences against the texts that they cite."""

from attribot_rag.checks.checking import CitedText, check_sentence, with_checks

__all__ = ["CitedText", "check_sentence", "with_checks"]
