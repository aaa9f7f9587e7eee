"""Log-likelihoods of a response under ablations, by interchangeable implementations."""

from attribot_rag.scoring.log_likelihoods import LogLikelihoods
from attribot_rag.scoring.masking import Reencoded
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.scorer import Scorer
from attribot_rag.scoring.selection import ScoringModels
from attribot_rag.scoring.server import scoring_models
from attribot_rag.scoring.session import Budget, Meter, Progress, Session, Usage

__all__ = [
    "Budget",
    "LogLikelihoods",
    "Meter",
    "Progress",
    "Reencoded",
    "Scorer",
    "ScoringModels",
    "ScoringOptions",
    "Session",
    "Usage",
    "scoring_models",
]
