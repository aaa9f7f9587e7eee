"""Methods decide which ablations to ask a scorer for; they never touch the model."""

from attribot_rag.methods.base import SourceScores
from attribot_rag.methods.leave_one_out import leave_one_out

__all__ = ["SourceScores", "leave_one_out"]
