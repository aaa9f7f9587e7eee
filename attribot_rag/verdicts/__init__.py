"""Verdicts: the sources that each sentence of an answer relies on, if any."""

from attribot_rag.methods.limits import VerdictOptions
from attribot_rag.verdicts.judge import Judgement, judge

__all__ = ["Judgement", "VerdictOptions", "judge"]
