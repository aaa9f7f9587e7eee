"""Log-likelihoods of a response under ablations: three implementations of one contract."""

from attribot_rag.scoring.scorer import LogLikelihoods, Scorer, ScoringOptions, Usage
from attribot_rag.scoring.selection import ScoringModels

__all__ = ["LogLikelihoods", "Scorer", "ScoringModels", "ScoringOptions", "Usage"]
