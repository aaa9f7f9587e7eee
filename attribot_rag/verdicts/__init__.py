"""What a reader may believe of each sentence of an answer, and which sources stand out."""

from attribot_rag.verdicts.judge import Judgement, judge
from attribot_rag.verdicts.options import VerdictOptions

__all__ = ["Judgement", "VerdictOptions", "judge"]
