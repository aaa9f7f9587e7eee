"""Log-likelihoods of a response under ablations, by interchangeable backends."""

from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring.backend import Backend
from attribot_rag.scoring.engine import ScoringOptions
from attribot_rag.scoring.local.backend import LocalBackend
from attribot_rag.scoring.row import Reencoded, Request
from attribot_rag.scoring.scorer import LogLikelihoods, Scorer
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
    """What scores for a model: its weights here, or the server that has them.

    Raises UnsupportedModel for any other model.
    """
    if isinstance(language_model, LocalModel):
        return LocalBackend(language_model.model)
    from attribot_rag.model.served_model import ServedModel  # with HTTP, which few need
    from attribot_rag.scoring.served import ServedBackend

    if not isinstance(language_model, ServedModel):
        raise UnsupportedModel(
            f"{type(language_model).__name__} is neither a LocalModel nor a ServedModel; pass what "
            "scores for it, Attributor(model, backend=...)"
        )
    return ServedBackend(language_model.weights)
