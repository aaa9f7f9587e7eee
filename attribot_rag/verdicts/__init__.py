"""Verdicts: the sources of each sentence of an answer, if any."""

from attribot_rag.methods.limits import VerdictOptions
from attribot_rag.verdicts.judging import Judgement, judge

__all__ = ["Judgement", "VerdictOptions", "judge"]
