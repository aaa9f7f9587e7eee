"""Verdicts: the sources that each sentence of an answer relies on, if any."""

from attribot_rag.verdicts.judge import Judgement, judge
from attribot_rag.verdicts.options import VerdictOptions

__all__ = ["Judgement", "VerdictOptions", "judge"]
