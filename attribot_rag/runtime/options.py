"""The options of services that attribute applications' answers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from attribot_rag.attributor import AttributorOptions, Options
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.runtime.runs import AttributedRun
from attribot_rag.support.helpers import Helper, Model, helper_or_none

logger = logging.getLogger(__name__)

Mode = Literal["inline", "background"]
Words = Literal["words"]
Scoring = LanguageModel | Words | Helper
"""What attributes answers: a model, or 'words' for WordsReader, or what helps that."""
Reader = Scoring | Model
"""What reads other models' answers."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """The options of an application's attributions: `Options`, and when to attribute and notify.

    Args:
        mode: With 'inline', an answer waits for its attribution. With 'background', it returns at
            once, with the status 'pending', and the attribution follows.
        max_pending: How many answers may wait for their attribution in the background.
        max_results: How many of the last runs are kept.
        max_cache_bytes: The most bytes of KV caches of recorded answers. The newest cache is kept
            even if it is larger, while there is free memory. Without its cache, a prompt is read
            again.
        on_sentence: Called with the pending run after each sentence is judged.
        on_result: Called with each finished run. `on_sentence` and `on_result` must not be
            coroutine functions.
        raise_error: Whether an error is raised if the caller waits for the attribution. Otherwise,
            the run and the log have the error.
    """

    mode: Mode = "inline"
    max_pending: int = 32
    max_results: int = 128
    max_cache_bytes: int = 512 * 2**20
    on_sentence: Callable[[AttributedRun], object] | None = None
    on_result: Callable[[AttributedRun], object] | None = None
    raise_error: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in get_args(Mode):
            raise InvalidInput(f"mode={self.mode!r}; choose one of {', '.join(get_args(Mode))}")
        for name in ("max_pending", "max_results"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use at least 1")
        for name in ("on_sentence", "on_result"):
            if inspect.iscoroutinefunction(getattr(self, name)):
                raise InvalidInput(
                    f"{name} is a coroutine function; pass a function, such as "
                    "lambda run: asyncio.run_coroutine_threadsafe(told(run), loop)"
                )
        if self.max_cache_bytes < 0:
            raise InvalidInput(f"max_cache_bytes={self.max_cache_bytes!r}; use 0 or more")

    def notify(self, name: Literal["on_sentence", "on_result"], run: AttributedRun) -> None:
        """Call the application's function of this name with the run, and log its errors."""
        function = getattr(self, name)
        if function is not None:
            try:
                function(run)
            except Exception:
                logger.exception("%s failed for the run %s", name, run.run_id)


def scoring_model(
    language_model: Any, reader: Any, convert: Callable[[Any], LanguageModel]
) -> Scoring | None:
    """What scores the answers of another model: the same weights, or a reader; None without both.

    `convert` turns a framework's model into a LanguageModel. Raises InvalidInput if both are given.
    """
    if language_model is not None and reader is not None:
        raise InvalidInput(
            "language_model= has the weights of the model that answers, reader= reads what another "
            "one answered; pass one of them"
        )
    if isinstance(reader, str):
        return cast(Words, reader)
    if helper := helper_or_none(reader):
        return helper
    scoring = language_model if reader is None else reader
    return None if scoring is None else convert(scoring)


def check_words(scoring: str | Helper, proxy: object = None) -> None:
    """Raises InvalidInput for a text other than 'words', and if there is also a proxy."""
    if isinstance(scoring, str) and scoring != "words":
        raise InvalidInput(
            f"{scoring!r} is no reader; pass 'words', or a model such as attribot_rag.load_model()"
        )
    if proxy is not None:
        raise InvalidInput("proxy= ranks sources for a model; leave it out without one")


class ServiceOptions(AttributorOptions, total=False):
    """The options of AttributionService by name, for integrations that pass them on."""

    mode: Mode
    max_pending: int
    max_results: int
    max_cache_bytes: int
    on_sentence: Callable[[AttributedRun], object] | None
    on_result: Callable[[AttributedRun], object] | None
    raise_error: bool
