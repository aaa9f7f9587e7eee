"""Log-likelihoods of a response under ablations, by interchangeable backends."""

from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.local_model import LocalModel
from attribot_rag.model.served_model import ServedModel
from attribot_rag.scoring.backend import Backend
from attribot_rag.scoring.local.backend import LocalBackend
from attribot_rag.scoring.log_likelihoods import LogLikelihoods
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.row import Reencoded, Request
from attribot_rag.scoring.scorer import Scorer
from attribot_rag.scoring.served import ServedBackend
from attribot_rag.scoring.session import Budget, Meter, Progress, Session, Usage

__all__ = [
    "Backend",
    "Budget",
    "LocalBackend",
    "LogLikelihoods",
    "Meter",
    "Progress",
    "Reencoded",
    "Request",
    "Scorer",
    "ScoringOptions",
    "Session",
    "Usage",
    "scoring_backend",
]


def scoring_backend(language_model: LanguageModel) -> Backend:
    """What scores for a model: its weights here, or the server that has them."""
    match language_model:
        case LocalModel(model=model):
            return LocalBackend(model)
        case ServedModel(weights=weights):
            return ServedBackend(weights)
    raise TypeError(f"no backend scores for a {type(language_model).__name__}")
