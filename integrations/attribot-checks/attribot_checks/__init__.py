"""Checks the values of an answer against the texts that its sentences cite."""

from attribot_checks.checking import ValueChecks, check_sentence

__version__ = "0.1.0"

__all__ = ["ValueChecks", "__version__", "check_sentence"]
