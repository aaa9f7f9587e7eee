"""Selection of the implementation for a model: the fastest that is right for it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import torch
from transformers import PreTrainedModel

from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_backend import placeholder_ids
from attribot_rag.model.state import Derived, reads_elsewhere
from attribot_rag.scoring.base import Implementation, Prefill, TwinImplementation, Unsupported
from attribot_rag.scoring.implementations.cropped import Cropped
from attribot_rag.scoring.implementations.memory import Batching, is_out_of_memory
from attribot_rag.scoring.implementations.packed import Packed
from attribot_rag.scoring.implementations.pace import pass_tokens
from attribot_rag.scoring.implementations.probes import FAILURES, Probes, tolerance
from attribot_rag.scoring.implementations.reference import Reference, rope_changes
from attribot_rag.scoring.implementations.twin import check_placed, make_twin

IMPLEMENTATIONS: tuple[type[TwinImplementation], ...] = (Packed, Cropped, Reference)
"""From the fastest to the slowest."""

Requested = str | type[TwinImplementation]
"""'auto', a name, or an implementation of one's own."""

logger = logging.getLogger(__name__)


def requested_kinds(requested: Requested) -> tuple[type[TwinImplementation], ...]:
    """The implementations to try, fastest first; raises InvalidInput if there is none."""
    if isinstance(requested, type) and issubclass(requested, TwinImplementation):
        return (requested,)
    kinds = tuple(kind for kind in IMPLEMENTATIONS if requested in ("auto", kind.name))
    if not kinds:
        names = ", ".join(kind.name for kind in IMPLEMENTATIONS)
        raise InvalidInput(
            f"unknown implementation {requested!r}; choose one of auto, {names}, a class of one's "
            "own, or for a served model server"
        )
    return kinds


class ScoringModels:
    """The twins of a model, and the implementations that are right for it.

    An implementation is right if the configuration does not rule it out and a small probe gives
    the numbers of `Reference`; a probe that fails is logged once. Thread-safe; twins and probes
    are renewed when the model is changed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._name = model.name_or_path or type(model).__name__
        self._probes = Probes(model, self.make, self._twin)
        self._derived = Derived(model)
        self._logged: set[type[Implementation]] = set()

    def for_attribution(self) -> AbstractContextManager[None]:
        """Within it the model is taken for unchanged, see `Derived.taken_for_unchanged`."""
        return self._derived.taken_for_unchanged()

    @property
    def original(self) -> PreTrainedModel:
        """The user's own model; in training mode, where it draws at random, the plain twin."""
        return self.plain_twin if self._model.training else self._model

    @property
    def plain_twin(self) -> PreTrainedModel:
        """The twin with the model's own attention."""
        return self._twin(None)

    @property
    def pass_tokens(self) -> int:
        """As `pass_tokens`, measured once."""
        return self._derived.value("pass tokens", lambda: pass_tokens(self.plain_twin))

    def batching(self, implementation: Implementation, token_budget: int | None) -> Batching:
        """Batches of rows, see `Batching.by_tokens`."""
        return Batching.by_tokens(self._model, implementation, token_budget)

    def make(
        self, kind: type[TwinImplementation], generation: Generation, prefill: Prefill | None = None
    ) -> TwinImplementation:
        """The prepared implementation for a generation; raises Unsupported if it is not right."""
        implementation = kind(self._twin(kind.attention), generation, prefill)
        with torch.no_grad():
            implementation.prepare(self._twin(None))
        return implementation

    def select(
        self, requested: Requested, generation: Generation, prefill: Prefill | None = None
    ) -> TwinImplementation:
        """The requested implementation, or for 'auto' the fastest that is right for the model.

        Raises InvalidInput for an unknown name, UnsupportedModel if the requested
        implementation is refused.
        """
        for kind in self._right(requested, generation):
            try:
                return self.make(kind, generation, prefill)
            except Unsupported as error:
                _refuse(kind, requested, str(error))
        raise AssertionError("Reference refuses nothing")

    def fallback(self, used: type[Implementation], generation: Generation) -> str | None:
        """Why the fastest implementation is not right here, None if it is `used`."""
        for kind in IMPLEMENTATIONS:
            if issubclass(used, kind):
                return None
            reason = self.refusal(kind, generation)
            if reason is not None:
                return f"{kind.name}: {reason}"
        return None

    def make_ready(self, requested: Requested, generation: Generation) -> None:
        """Make the twin and run the probes, unless they are ready; reads no prompt.

        Raises UnsupportedModel for a model, or another input than ids, that cannot be scored.
        """
        check_placed(self._model)
        self._check_inputs(generation)
        self._check_twin()
        self.masked_refusal(self.first(requested, generation), generation)

    def changed_since(self, generation: Generation) -> bool:
        """Whether the model was changed after it answered, as far as that is known."""
        return generation.model_version not in (None, self._derived.version)

    def is_conditioned(self, generation: Generation) -> bool:
        """Whether something else than ids had an influence on the answer.

        Tokenizers give zeros as types of tokens; whether the model heeds them is tried.
        """
        conditioning = generation.conditioning
        has_values = any(any(values.by_id.values()) for values in conditioning.per_token.values())
        if not conditioning or conditioning.whole or conditioning.unknown or has_values:
            return bool(conditioning)
        ignores = partial(self._probes.ignores, conditioning)
        return not self._derived.value(("ignored", conditioning.names), ignores)

    def _check_inputs(self, generation: Generation) -> None:
        conditioning = generation.conditioning
        parameters = inspect.signature(self._model.forward).parameters
        lost = [*conditioning.unknown, *(n for n in conditioning.names if n not in parameters)]
        if lost:
            raise UnsupportedModel(
                f"the answer was also conditioned on {', '.join(dict.fromkeys(lost))}, which "
                "cannot be given to a prompt without one of its sources; generate from token ids, "
                "and prompts with images one by one"
            )

    def _check_twin(self) -> None:
        """Compare a twin with the model, where no state shows all that the model does."""
        if self._model.training or not reads_elsewhere(self._model):
            return
        limit = tolerance(self._model.dtype)
        if self._probes.stale() <= limit:
            return
        self._derived.forget()
        difference = self._probes.stale()
        if difference > limit:
            raise UnsupportedModel(
                f"a copy of the model differs from it by {difference:.2g} nats, because of a hook "
                "or a replaced method; remove that, or merge the adapter"
            )

    def first(self, requested: Requested, generation: Generation) -> type[TwinImplementation]:
        """The implementation that `select` tries first; reads no prompt."""
        return next(self._right(requested, generation))

    def _right(
        self, requested: Requested, generation: Generation
    ) -> Iterator[type[TwinImplementation]]:
        """The requested implementations that are not refused, fastest first."""
        kinds = requested_kinds(requested)
        unscorable = self._derived.value("unscorable", self._probes.unscorable)
        if unscorable is not None:
            raise UnsupportedModel(f"the model {self._name!r} cannot be scored: {unscorable}")
        for kind in kinds:
            reason = self.refusal(kind, generation)
            if reason is None:
                yield kind
            else:
                _refuse(kind, requested, reason)

    def refusal(self, kind: type[TwinImplementation], generation: Generation) -> str | None:
        """Why this implementation is not right for a generation, or None if it is."""
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        reason = kind.refusal(self._model, num_tokens)
        if reason is not None or kind is Reference:
            return reason
        return self._probe(kind, masked=False) or self._unshared(kind, generation)

    def masked_refusal(self, kind: type[Implementation], generation: Generation) -> str | None:
        """Why this implementation cannot hide a part of the prompt, or None if it can."""
        assert issubclass(kind, TwinImplementation)
        num_prompt, num_response = len(generation.prompt_ids), len(generation.response_ids)
        if rope_changes(self._model, num_prompt, num_prompt + num_response):
            return "its rotary frequencies change with the length while it answers"
        reason = kind.masked_refusal(self._model) or self._other_inputs(generation)
        return reason or self._probe(kind, masked=True)

    def _other_inputs(self, generation: Generation) -> str | None:
        if not self.is_conditioned(generation):
            return None
        return f"the answer was also conditioned on {generation.conditioning}"

    def _unshared(self, kind: type[TwinImplementation], generation: Generation) -> str | None:
        """Why inputs besides ids cannot be in a cache that rows share, or None if they can.

        Tried on the images themselves, with a few tokens after them, once for each kind of inputs.
        """
        reason = self._other_inputs(generation)
        if reason is None:
            return None
        conditioning, ids = generation.conditioning, generation.prompt_ids
        placeholders = placeholder_ids(self._model)
        images = [place for place, token_id in enumerate(ids) if token_id in placeholders]
        if conditioning.whole and not (images and images[-1] < len(ids) - 2):
            return reason
        head = ids[max(0, images[0] - 1) : images[-1] + 2] if conditioning.whole else ()
        run = partial(self._probes.exact, kind, head, conditioning)
        outcome = partial(self._outcome, kind, run, masked=False)
        failure = self._derived.value((kind, conditioning.names), outcome)
        return None if failure is None else f"{reason}: {failure}"

    def _probe(self, kind: type[TwinImplementation], *, masked: bool) -> str | None:
        """Why a probe rules the implementation out, or None."""
        run = self._probes.masked if masked else self._probes.exact
        outcome = partial(self._outcome, kind, partial(run, kind), masked=masked)
        return self._derived.value((kind, masked), outcome)

    def _outcome(
        self, kind: type[Implementation], run: Callable[[], float], *, masked: bool
    ) -> str | None:
        try:
            difference = run()
        except Unsupported as error:
            return str(error)
        except FAILURES as error:
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
            logger.warning("%s is not used for the model %s: %s", kind.name, self._name, reason)

    def _twin(self, attention: str | None) -> PreTrainedModel:
        make = partial(make_twin, self._model, attention)
        return self._derived.value(("twin", attention), make)


def _refuse(kind: type[Implementation], requested: Requested, reason: str) -> None:
    if requested != "auto":
        raise UnsupportedModel(f"{kind.name!r} is not right for this model: {reason}; use 'auto'")
