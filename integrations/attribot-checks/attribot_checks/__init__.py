"""A check of text: values of an answer's sentences against the texts that they cite."""

from attribot_checks.checking import CitedText, check_sentence, with_checks

__version__ = "0.1.0"

__all__ = ["CitedText", "__version__", "check_sentence", "with_checks"]
