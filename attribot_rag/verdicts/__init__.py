"""What a reader may believe of each sentence of an answer, and which sources stand out."""

from attribot_rag.verdicts.judge import judge
from attribot_rag.verdicts.options import VerdictOptions
from attribot_rag.verdicts.outliers import outliers

__all__ = ["VerdictOptions", "judge", "outliers"]
