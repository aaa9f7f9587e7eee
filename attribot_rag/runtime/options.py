"""The options of services that attribute applications' answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from attribot_rag.attributor import AttributorOptions, Options
from attribot_rag.attributor.words_reader import Classifier, Entailment, is_classifier
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.runtime.runs import AttributedRun

logger = logging.getLogger(__name__)

Mode = Literal["inline", "background"]
Words = Literal["words"]
Scoring = LanguageModel | Words | Entailment
"""What attributes answers: a model, or 'words' for WordsReader, or a classifier that helps it."""
Reader = Scoring | Classifier
"""What reads other models' answers."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """The options of an application's attributions: `Options`, and when to attribute and notify.

    Args:
        mode: With 'inline' an answer waits for its attribution. With 'background' it comes at once,
            with the status 'pending', and its attribution later.
        max_pending: Answers that may wait for their attribution in the background.
        max_results: The number of the last runs that are kept.
        max_cache_bytes: The most bytes of KV caches of recorded answers. The newest one is kept
            even if it has more, while memory allows; without its cache a prompt is read again.
        on_sentence: Gets the pending run after the verdict on each sentence.
        on_result: Gets every finished run. Both may be coroutine functions: these run in the event
            loop in which the service was made or last asked, or else in a loop of their own.
        raise_error: Whether errors are raised where the caller waits; else they become part of the
            run, and are logged.
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
        if self.max_cache_bytes < 0:
            raise InvalidInput(f"max_cache_bytes={self.max_cache_bytes!r}; use 0 or more")

    def tell(
        self,
        name: Literal["on_sentence", "on_result"],
        run: AttributedRun,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Call the application's function of this name with the run, and log its errors.

        A coroutine of its runs in this event loop if that runs, or else is waited for.
        """
        function = getattr(self, name)

        async def finish(told: Awaitable[object]) -> None:
            with _logged(name, run):
                await told

        with _logged(name, run):
            told = None if function is None else function(run)
            if inspect.isawaitable(told):
                loop = running_loop() or loop
                if loop is not None and loop.is_running():
                    asyncio.run_coroutine_threadsafe(finish(told), loop)
                else:
                    asyncio.run(finish(told))


def scoring_model(
    language_model: Any, reader: Any, convert: Callable[[Any], LanguageModel]
) -> Scoring | None:
    """What scores what others answer: the model with the same weights, or a reader; or None.

    `convert` makes a LanguageModel of a framework's model. Raises InvalidInput for both.
    """
    if language_model is not None and reader is not None:
        raise InvalidInput(
            "language_model= has the weights of the model that answers, reader= reads what another "
            "one answered; pass one of them"
        )
    if isinstance(reader, str):
        return cast(Words, reader)
    if is_classifier(reader):
        return Entailment(reader)
    scoring = language_model if reader is None else reader
    return None if scoring is None else convert(scoring)


def check_words(scoring: str | Entailment, proxy: object = None) -> None:
    """Raises InvalidInput for another text than 'words', and for a proxy beside it."""
    if isinstance(scoring, str) and scoring != "words":
        raise InvalidInput(
            f"{scoring!r} is no reader; pass 'words', or a model such as attribot_rag.load_model()"
        )
    if proxy is not None:
        raise InvalidInput("proxy= ranks sources for a model; leave it out without one")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; None without."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


@contextmanager
def _logged(name: str, run: AttributedRun) -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.exception("%s failed for the run %s", name, run.run_id)


class ServiceOptions(AttributorOptions, total=False):
    """Options of AttributionService by name, for integrations that pass them on."""

    mode: Mode
    max_pending: int
    max_results: int
    max_cache_bytes: int
    on_sentence: Callable[[AttributedRun], object] | None
    on_result: Callable[[AttributedRun], object] | None
    raise_error: bool
