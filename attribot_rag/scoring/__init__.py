"""Log-likelihoods of a response under ablations, by exchangeable backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attribot_rag._lazy import lazily
from attribot_rag.errors import UnsupportedModel

if TYPE_CHECKING:
    from attribot_rag.model.language_model import LanguageModel
    from attribot_rag.scoring.backend import Backend as Backend
    from attribot_rag.scoring.local_backend import LocalBackend as LocalBackend
    from attribot_rag.scoring.row import Recomputed as Recomputed
    from attribot_rag.scoring.row import Request as Request
    from attribot_rag.scoring.scorer import LogLikelihoods as LogLikelihoods
    from attribot_rag.scoring.scorer import Scorer as Scorer
    from attribot_rag.scoring.session import Budget as Budget
    from attribot_rag.scoring.session import Meter as Meter
    from attribot_rag.scoring.session import Progress as Progress
    from attribot_rag.scoring.session import ScoringOptions as ScoringOptions
    from attribot_rag.scoring.session import Session as Session
    from attribot_rag.scoring.session import Usage as Usage
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            ".backend": ["Backend"],
            ".local_backend": ["LocalBackend"],
            ".row": ["Recomputed", "Request"],
            ".scorer": ["LogLikelihoods", "Scorer"],
            ".session": ["Budget", "Meter", "Progress", "ScoringOptions", "Session", "Usage"],
        },
    )
    __all__ = [*__all__, "scoring_backend"]


# By the weights, which all users of a model share, so each model is probed only once.
_backends: WeakKeyDictionary[Any, Backend] = WeakKeyDictionary()


def scoring_backend(language_model: LanguageModel) -> Backend:
    """The backend that scores for a model: its weights here, or its server.

    All users of the same weights here share one backend. Raises UnsupportedModel for any other
    model.
    """
    from attribot_rag.model.local_model import LocalModel
    from attribot_rag.scoring.local_backend import LocalBackend

    if isinstance(language_model, LocalModel):
        return _backends.setdefault(language_model.weights, LocalBackend(language_model.model))
    from attribot_rag.model.served_model import ServedModel  # imports HTTP, which few need
    from attribot_rag.scoring.served import ServedBackend

    if not isinstance(language_model, ServedModel):
        raise UnsupportedModel(
            f"{type(language_model).__name__} is neither a LocalModel nor a ServedModel; pass what "
            "scores for it, Attributor(model, backend=...)"
        )
    return ServedBackend(language_model.weights)
