"""The language of a text, which says what its abbreviations and numbers look like."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_DEFAULT = "en"
# Below this, too many single sentences are taken for another language:
# see docs/evaluation/reliability.md.
_MIN_CONFIDENCE = 0.5
_MAX_LENGTH = 400


def language_of(text: str, others: Iterable[str] = ()) -> str:
    """The ISO 639 code of a text's language, by its beginning.

    A text that is too short to tell has the language of the first of the `others` that is not, or
    else English.
    """
    detected = (_detected(one[:_MAX_LENGTH]) for one in (text, *others))
    return next(filter(None, detected), _DEFAULT)


@lru_cache(maxsize=4096)
def _detected(text: str) -> str | None:
    language, confidence = _identifier().classify(text)
    # zxx: code, figures and the like
    return language if confidence >= _MIN_CONFIDENCE and language != "zxx" else None


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
