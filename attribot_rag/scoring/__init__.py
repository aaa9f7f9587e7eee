"""Log-likelihoods of a response under ablations, by interchangeable implementations."""

from attribot_rag.scoring.implementations.selection import ScoringModels
from attribot_rag.scoring.implementations.server import AnyScoringModels, scoring_models
from attribot_rag.scoring.log_likelihoods import LogLikelihoods
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.row import Reencoded, Request
from attribot_rag.scoring.scorer import Scorer
from attribot_rag.scoring.session import Budget, Meter, Progress, Session, Usage

__all__ = [
    "AnyScoringModels",
    "Budget",
    "LogLikelihoods",
    "Meter",
    "Progress",
    "Reencoded",
    "Request",
    "Scorer",
    "ScoringModels",
    "ScoringOptions",
    "Session",
    "Usage",
    "scoring_models",
]
