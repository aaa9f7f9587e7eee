"""The options of scoring, and the budget, usage and progress of one attribution."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tqdm.auto import tqdm

from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel

_NAMES = ("auto", "packed", "cropped", "reference", "server")
_FIRST_TOKENS = 256

# The total grows while a search runs, so a percentage would jump back and forth.
_FORMAT = "{desc}: {n_fmt} of {total_fmt} {unit} [{elapsed}<{remaining}]"
_NOT_YET = 1e-9  # seconds; nothing is drawn before work is expected

Requested = str | type
"""'auto', the name of an implementation, or a class of your own."""


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Options for computing log-likelihoods.

    Raises InvalidInput for an unknown implementation, or a budget below 1.

    Args:
        implementation: 'auto' (the fastest that is right for the model), 'packed', 'cropped' or
            'reference', or a class of your own; for a served model 'auto' or 'server'.
        token_budget: The most tokens in a forward pass. A token whose logits are needed counts as
            several tokens, because logits take memory. With None, the free memory decides.
        pass_tokens: How many tokens take as long as launching a forward pass. If this number is
            high, rows that may be needed later are scored in the same pass as rows that are needed
            now. 0 means that only tokens take time. With None, the number is measured once for a
            model on a GPU, and is 0 for other models. For a served model, the number stands for a
            round trip.
        self_check: Whether to score one ablation by the reference implementation too. Raises
            ScoringFailed if the two scores differ.
    """

    implementation: Requested = "auto"
    token_budget: int | None = None
    pass_tokens: int | None = None
    self_check: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.implementation, type) and self.implementation not in _NAMES:
            raise InvalidInput(
                f"unknown implementation {self.implementation!r}; choose one of "
                f"{', '.join(_NAMES)}, or a class of one's own"
            )
        if self.token_budget is not None and self.token_budget < 1:
            raise InvalidInput(f"token_budget={self.token_budget}; use at least 1, or None")
        if self.pass_tokens is not None and self.pass_tokens < 0:
            raise InvalidInput(f"pass_tokens={self.pass_tokens}; use at least 0, or None")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An upper limit for the time of an attribution, for its tokens, or for both.

    If the budget ends early, the result is incomplete. It contains the most useful scores, because
    these are computed first. Without a recorded cache, the model first reads the prompt. After
    that, at least one forward pass runs, unless the seconds end while the model reads the prompt.
    Raises InvalidInput for a limit that is not above 0.

    Args:
        seconds: After this time, no new forward pass begins. If the model is still reading the
            prompt, it stops after the current piece of 512 tokens (2,048 on a GPU).
        tokens: The most tokens in forward passes. The prompt and the first pass may exceed this
            limit.
    """

    seconds: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise InvalidInput(f"budget of {value} {name}; use more than 0, or None")


class Meter:
    """Counts tokens and seconds against a budget. All scorers of one attribution share it.

    `exhausted` says that something was left undone. `stopped_at_cap` says that this was because of
    `cap_further`, within the budget.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._paused = 0.0
        self._started = self.clock()
        self._seconds_per_token: float | None = None
        self._cap: int | None = None
        self._cap_reached = self._budget_reached = False
        self.tokens = 0
        self.exhausted = False

    @property
    def stopped_at_cap(self) -> bool:
        return self.exhausted and self._cap_reached and not self._budget_reached

    def cap_further(self, tokens: int) -> None:
        """Allow no more than this number of further tokens, however large the budget is."""
        self._cap = self.tokens + tokens

    @contextmanager
    def uncapped(self) -> Iterator[None]:
        """Do not count the tokens of the block towards the cap."""
        cap, before = self._cap, self.tokens
        self._cap = None
        try:
            yield
        finally:
            self._cap = None if cap is None else cap + self.tokens - before

    def clock(self) -> float:
        """Seconds, without those in which others were served."""
        return time.perf_counter() - self._paused

    def pause(self, seconds: float) -> None:
        """Leave out seconds in which others were served."""
        self._paused += seconds

    def spend(self, tokens: int, seconds: float) -> None:
        """Count a forward pass. The pace of the last pass predicts how long the next one takes."""
        self.tokens += tokens
        if tokens:
            self._seconds_per_token = seconds / tokens

    @property
    def deadline(self) -> float | None:
        """When the budget's seconds end, by `time.perf_counter`; None without a limit."""
        seconds = self._budget.seconds
        return None if seconds is None else self._started + self._paused + seconds

    @property
    def counts_tokens(self) -> bool:
        """Whether there is a limit in tokens."""
        return self._budget.tokens is not None or self._cap is not None

    @property
    def is_late(self) -> bool:
        """Whether the budget's seconds are over."""
        return self.deadline is not None and time.perf_counter() > self.deadline

    def try_fit(self, tokens: int, backward: int = 0) -> bool:
        """Whether this number of further tokens fits, by the pace of the last pass.

        Tokens of `backward` passes count only in seconds, where each counts as one more token. A
        refusal is remembered for `stopped_at_cap`.
        """
        budget, seconds = self._budget, self._seconds_per_token
        within_budget = budget.tokens is None or self.tokens + tokens <= budget.tokens
        if budget.seconds is not None:
            elapsed = self.clock() - self._started
            if seconds is None:
                is_soon = elapsed < budget.seconds and tokens + backward <= _FIRST_TOKENS
            else:
                is_soon = elapsed + (tokens + backward) * seconds <= budget.seconds
            within_budget = within_budget and is_soon
        within_cap = self._cap is None or self.tokens + tokens <= self._cap
        self._budget_reached = self._budget_reached or not within_budget
        self._cap_reached = self._cap_reached or not within_cap
        return within_budget and within_cap

    def fit_or_stop(self, tokens: int, backward: int = 0) -> bool:
        """Whether this number of further tokens fits. If not, the meter is exhausted."""
        fits = self.try_fit(tokens, backward)
        self.exhausted = self.exhausted or not fits
        return fits


@dataclass
class Usage:
    """The work of a model, in tokens, forward passes and seconds."""

    model: str
    num_parameters: int
    prefilled_tokens: int = 0
    scored_tokens: int = 0
    backward_tokens: int = 0
    forward_passes: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prefilled_tokens + self.scored_tokens

    def count_pass(self, tokens: int, backward_tokens: int, seconds: float) -> None:
        """Count a forward pass that scored no rows."""
        self.scored_tokens += tokens
        self.backward_tokens += backward_tokens
        self.forward_passes += 1
        self.seconds += seconds

    @property
    def flops(self) -> float:
        """2 FLOPs for each parameter and token (AttriBoT, section 3), and 4 for backward passes."""
        return 2.0 * self.num_parameters * (self.tokens + 2 * self.backward_tokens)


class Progress:
    """Gets the numbers of ablations to score and of scored ones. Shows them in a bar, if any.

    The total of the bar grows with the expected work.
    """

    def __init__(self, bar: tqdm[Any] | None = None) -> None:
        self._bar = bar

    def expect(self, count: int) -> None:
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + count
            self._bar.refresh()

    def advance(self, count: int) -> None:
        if self._bar is not None:
            self._bar.update(count)


@dataclass(eq=False)
class Session:
    """The budget, the progress and the usage of one attribution.

    `between_batches` runs before each forward pass, so that others can go first. It returns the
    seconds that the budget does not count. `largest_difference` from the reference is in nats; None
    without a check.
    """

    meter: Meter = field(default_factory=Meter)
    progress: Progress = field(default_factory=Progress)
    between_batches: Callable[[], float] = lambda: 0.0
    largest_difference: float | None = None
    usages: list[tuple[LanguageModel, Usage]] = field(default_factory=list)

    def before_batch(self) -> None:
        """Let others go first."""
        self.meter.pause(self.between_batches())

    def usage_of(self, language_model: LanguageModel) -> Usage:
        """The usage of a model, which is empty at first."""
        for model, usage in self.usages:
            if model is language_model:
                return usage
        usage = Usage(language_model.name, language_model.weights.num_parameters)
        self.usages.append((language_model, usage))
        return usage


@contextmanager
def progress_bar(
    *, shown: bool, doing: str = "attributing", unit: str = "ablation", every: float = 0.1
) -> Iterator[Progress]:
    """A bar during the block, if `shown`. It is drawn again `every` so many seconds."""
    if not shown:  # a bar takes a lock that forked processes share
        yield Progress()
        return
    with tqdm(
        total=0,
        desc=doing,
        unit=f"{unit}s",
        bar_format=_FORMAT,
        leave=False,
        mininterval=every,
        delay=_NOT_YET,
    ) as bar:
        yield Progress(bar)
