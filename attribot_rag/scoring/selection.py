"""Selection of the implementation for a model: the fastest that is right for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

import torch
from transformers import PreTrainedModel

from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.generation import Generation
from attribot_rag.scoring.base import Implementation, Unsupported
from attribot_rag.scoring.cropped import Cropped
from attribot_rag.scoring.memory import is_out_of_memory
from attribot_rag.scoring.model_state import ModelState
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.reference import Reference
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.twin import make_twin

IMPLEMENTATIONS: tuple[type[Implementation], ...] = (Packed, Cropped, Reference)
"""From the fastest to the slowest."""

logger = logging.getLogger(__name__)

_PROBE_PROMPT_TOKENS = 24
_PROBE_RESPONSE_TOKENS = 4


def tolerance(dtype: torch.dtype) -> float:
    """Nats per response token by which implementations may differ because of rounding."""
    return 1e-3 if dtype in (torch.float32, torch.float64) else 0.25


class ScoringModels:
    """The twins of a model, and the implementations that are right for it.

    An implementation is right if the configuration does not rule it out and a small probe gives
    the numbers of `Reference`; a probe that fails is logged once. Thread-safe; twins and probes
    are renewed when the model's weights are replaced.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._lock = threading.RLock()
        self._state: ModelState | None = None
        self._twins: dict[str | None, PreTrainedModel] = {}
        self._probed: dict[tuple[type[Implementation], bool], str | None] = {}
        self._logged: set[type[Implementation]] = set()

    @property
    def plain_twin(self) -> PreTrainedModel:
        """The twin with the model's own attention."""
        return self._twin(None)

    def make(self, kind: type[Implementation], generation: Generation) -> Implementation:
        """The prepared implementation for a generation; raises Unsupported if it is not right."""
        implementation = kind(self._twin(kind.attention), generation)
        with torch.inference_mode():
            implementation.prepare(self._twin(None))
        return implementation

    def select(self, requested: str, generation: Generation) -> Implementation:
        """The requested implementation, or for 'auto' the fastest that is right for the model.

        Raises InvalidInput for an unknown name, UnsupportedModel if the requested
        implementation is refused.
        """
        for kind in self._right(requested, generation):
            try:
                return self.make(kind, generation)
            except Unsupported as error:
                self._refuse(kind, requested, str(error))
        raise AssertionError("Reference refuses nothing")

    def fallback(self, used: type[Implementation], generation: Generation) -> str | None:
        """Why the fastest implementation is not right here, None if it is `used`."""
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        for kind in IMPLEMENTATIONS:
            if issubclass(used, kind):
                return None
            reason = self.refusal(kind, num_tokens)
            if reason is not None:
                return f"{kind.name}: {reason}"
        return None

    def make_ready(self, requested: str, generation: Generation) -> None:
        """Make the twin and run the probes, unless they are ready; reads no prompt."""
        self.masked_refusal(self.first(requested, generation))

    def first(self, requested: str, generation: Generation) -> type[Implementation]:
        """The implementation that `select` tries first; reads no prompt."""
        return next(self._right(requested, generation))

    def _right(self, requested: str, generation: Generation) -> Iterator[type[Implementation]]:
        """The requested implementations that are not refused, fastest first."""
        names = [kind.name for kind in IMPLEMENTATIONS]
        if requested not in ("auto", *names):
            raise InvalidInput(
                f"unknown implementation {requested!r}; choose one of auto, {', '.join(names)}"
            )
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        for kind in IMPLEMENTATIONS:
            if requested not in ("auto", kind.name):
                continue
            reason = self.refusal(kind, num_tokens)
            if reason is None:
                yield kind
            else:
                self._refuse(kind, requested, reason)

    def _refuse(self, kind: type[Implementation], requested: str, reason: str) -> None:
        if requested == kind.name:
            raise UnsupportedModel(
                f"{kind.name!r} is not right for this model: {reason}; use 'auto'"
            )

    def refusal(self, kind: type[Implementation], num_tokens: int) -> str | None:
        """Why this implementation is not right for rows of this length, or None if it is."""
        reason = kind.refusal(self._model, num_tokens)
        if reason is not None or kind is Reference:
            return reason
        return self._probe(kind, masked=False)

    def masked_refusal(self, kind: type[Implementation]) -> str | None:
        """Why this implementation cannot hide a part of the prompt, or None if it can."""
        return kind.masked_refusal(self._model) or self._probe(kind, masked=True)

    def _probe(self, kind: type[Implementation], *, masked: bool) -> str | None:
        with self._lock:
            self._refresh()
            if (kind, masked) not in self._probed:
                self._probed[kind, masked] = self._run_probe(kind, masked=masked)
            return self._probed[kind, masked]

    def _run_probe(self, kind: type[Implementation], *, masked: bool) -> str | None:
        try:
            difference = self._probe_masked(kind) if masked else self._probe_exact(kind)
        except Unsupported as error:
            return str(error)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            if is_out_of_memory(error):
                raise
            if masked:
                return f"it takes no mask of four dimensions ({type(error).__name__})"
            self._log(kind, error)
            return f"a probe of it failed ({type(error).__name__})"
        if difference <= tolerance(self._model.dtype):
            return None
        reason = f"a probe of it differs from the reference by {difference:.2g} nats"
        if not masked:
            self._log(kind, reason)
        return reason

    def _log(self, kind: type[Implementation], reason: object) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            name = self._model.name_or_path or type(self._model).__name__
            logger.warning("%s is not used for the model %s: %s", kind.name, name, reason)

    def _probe_exact(self, kind: type[Implementation]) -> float:
        prompt, response = _probe_ids(self._model)
        generation = Generation(prompt, response)
        rows = [
            Row.exact(prompt, len(prompt), generation),
            Row.exact((*prompt[:10], *prompt[15:]), 10, generation),
            Row.exact(prompt[1:], 0, generation),
        ]
        truth = self._score(Reference, generation, rows)
        return float((self._score(kind, generation, rows) - truth).abs().max())

    def _probe_masked(self, kind: type[Implementation]) -> float:
        """Rows that hide nothing must equal the full prompt, other rows the reference.

        Recomputed tokens with gaps between them reveal an architecture that uses their place in
        the input instead of their position.
        """
        prompt, response = _probe_ids(self._model)
        generation = Generation(prompt, response)
        tail = range(18, len(prompt))
        rows = [
            Row.masked(generation, (), tail),
            Row.masked(generation, (), (*range(9, 12), *tail)),
            Row.masked(generation, range(5, 9), tail),
            Row.masked(generation, range(5, 9), (*range(9, 12), *tail)),
        ]
        reference = Reference(self._twin(self._with_masks), generation)
        with torch.inference_mode():
            full = reference.log_likelihoods([Row.exact(prompt, len(prompt), generation)])
            truth = torch.cat([full, full, reference.log_likelihoods(rows[2:])])
        return float((self._score(kind, generation, rows) - truth).abs().max())

    def _score(
        self, kind: type[Implementation], generation: Generation, rows: Sequence[Row]
    ) -> torch.Tensor:
        implementation = self.make(kind, generation)
        with torch.inference_mode():
            return implementation.log_likelihoods(rows)

    @property
    def _with_masks(self) -> str | None:
        """An attention function that takes any mask; None if the model's own does."""
        own = getattr(self._model.config, "_attn_implementation", None)
        return None if own in ("eager", "sdpa", None) else "sdpa"

    def _twin(self, attention: str | None) -> PreTrainedModel:
        with self._lock:
            self._refresh()
            if attention not in self._twins:
                self._twins[attention] = make_twin(self._model, attention)
            return self._twins[attention]

    def _refresh(self) -> None:
        """Forget the twins of a model that was changed: moved, adapted, patched."""
        current = ModelState.of(self._model)
        if current != self._state:
            self._state = current
            self._twins.clear()
            self._probed.clear()


def _probe_ids(model: PreTrainedModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Random token ids, the same for every run."""
    vocabulary = int(model.config.get_text_config(decoder=True).vocab_size)
    generator = torch.Generator().manual_seed(0)
    count = _PROBE_PROMPT_TOKENS + _PROBE_RESPONSE_TOKENS
    ids = tuple(torch.randint(vocabulary, (count,), generator=generator).tolist())
    return ids[:_PROBE_PROMPT_TOKENS], ids[_PROBE_PROMPT_TOKENS:]
