"""The backend of a model in this process: the fastest implementation that is right for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from transformers import PreTrainedModel

from attribot_rag.cached_property import cached_property
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import without_folder
from attribot_rag.model.local_model import Derived, placeholder_ids, reads_elsewhere
from attribot_rag.scoring.backend import Unsupported
from attribot_rag.scoring.local.cropped import Cropped
from attribot_rag.scoring.local.pace import pass_tokens
from attribot_rag.scoring.local.packed import Packed, PackedAtOnce
from attribot_rag.scoring.local.prefix import LocalPrefix
from attribot_rag.scoring.local.probes import FAILURES, Probes, tolerance
from attribot_rag.scoring.local.reference import Reference, rope_changes
from attribot_rag.scoring.local.twin import check_placed, make_twin
from attribot_rag.scoring.memory import is_out_of_memory
from attribot_rag.scoring.options import Requested

IMPLEMENTATIONS: tuple[type[LocalPrefix], ...] = (Packed, Cropped, Reference)
"""From the fastest to the slowest."""

logger = logging.getLogger(__name__)


def requested_kinds(requested: Requested) -> tuple[type[LocalPrefix], ...]:
    """The implementations to try, fastest first; raises InvalidInput if there is none."""
    if isinstance(requested, type) and issubclass(requested, LocalPrefix):
        return (requested,)
    kinds = tuple(kind for kind in IMPLEMENTATIONS if requested in ("auto", kind.name))
    if not kinds:
        names = ", ".join(kind.name for kind in IMPLEMENTATIONS)
        raise InvalidInput(
            f"unknown implementation {requested!r}; choose one of auto, {names}, a class of one's "
            "own, or for a served model server"
        )
    return kinds


class LocalBackend:
    """The twins of a model, and the implementations that are right for it.

    An implementation is right if the configuration does not rule it out and a small probe gives
    the numbers of `Reference`; a probe that fails is logged once. Thread-safe; twins and probes
    are renewed when the model is changed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._name = without_folder(model.name_or_path or type(model).__name__)
        self._derived = Derived(model)
        self._probes = Probes(model, self.make, self.twin, self._derived)
        self._logged: set[type[LocalPrefix]] = set()

    @cached_property
    def pass_tokens(self) -> int:
        """What a pass is worth in tokens, measured once; see `Prefix`."""
        return pass_tokens(self.twin())

    def for_attribution(self) -> AbstractContextManager[None]:
        """Within it the model is taken for unchanged, see `Derived.taken_for_unchanged`."""
        return self._derived.taken_for_unchanged()

    def twin(self, attention_function: str | None = None) -> PreTrainedModel:
        """The twin with this attention function, or with the model's own."""
        make = partial(make_twin, self._model, attention_function)
        return self._derived.value(("twin", attention_function), make)

    def make(self, kind: type[LocalPrefix], generation: Generation) -> LocalPrefix:
        """The prompt of a generation for an implementation, whether it is right or not."""
        prefix = kind(self.twin(kind.attention_function), generation, self.twin())
        # A cache may outlive what such a hook reads.
        prefix.model_version = None if reads_elsewhere(self._model) else self._derived.version
        return self._in_its_mode(prefix)

    def reference(self, generation: Generation) -> LocalPrefix:
        """On the model itself; in training mode, where it draws at random, on its twin."""
        model = self.twin() if self._model.training else self._model
        return self._in_its_mode(Reference(model, generation))

    def _in_its_mode(self, prefix: LocalPrefix) -> LocalPrefix:
        """A prefix in inference mode, which takes fewer operations, if the model runs in it."""
        if self._derived.value("inference mode", self._probes.runs_in_inference_mode):
            prefix.without_gradients = torch.inference_mode
        return prefix

    def encode_prefix(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> LocalPrefix:
        """See `Backend`; raises InvalidInput for an unknown name."""
        kinds = requested_kinds(implementation)
        unscorable = self._derived.value("unscorable", self._probes.unscorable)
        if unscorable is not None:
            raise UnsupportedModel(f"the model {self._name!r} cannot be scored: {unscorable}")
        fallback: str | None = None
        for kind in kinds:
            reason = self.refusal(kind, generation)
            if reason is None:
                prefix = self.make(kind, generation)
                prefix.masked_refusal = self.masked_refusal(kind, generation)
                prefix.fallback = fallback
                if isinstance(prefix, Packed):
                    worth = self.pass_tokens if pass_tokens is None else pass_tokens
                    if worth and self._is_right_at_once():
                        prefix.attend_at_once(worth)
                return prefix
            if implementation != "auto":
                raise UnsupportedModel(
                    f"{kind.name!r} is not right for this model: {reason}; use 'auto'"
                )
            fallback = fallback or f"{kind.name}: {reason}"
        raise AssertionError("Reference refuses nothing")

    def make_ready(self, generation: Generation, implementation: Requested) -> None:
        """Make the twin and run the probes, unless they are ready.

        Raises UnsupportedModel for a model, or a prompt with images, that cannot be scored.
        """
        check_placed(self._model)
        self._check_prompt(generation)
        self._check_twin()
        self.encode_prefix(generation, implementation)

    def changed_since(self, generation: Generation) -> bool:
        return generation.model_version not in (None, self._derived.version)

    def _check_prompt(self, generation: Generation) -> None:
        placeholders = placeholder_ids(self._model).intersection(generation.prompt_ids)
        if placeholders:
            raise UnsupportedModel(
                f"the prompt has tokens that stand for images or sounds (id {min(placeholders)}), "
                "which are not scored; ask about the text alone"
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

    def refusal(self, kind: type[LocalPrefix], generation: Generation) -> str | None:
        """Why this implementation is not right for a generation, or None if it is."""
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        reason = kind.refusal(self._model, num_tokens)
        if reason is not None or kind is Reference:
            return reason
        return self._probe(kind, masked=False)

    def masked_refusal(self, kind: type[LocalPrefix], generation: Generation) -> str | None:
        """Why this implementation cannot hide a part of the prompt, or None if it can."""
        num_prompt, num_response = len(generation.prompt_ids), len(generation.response_ids)
        if rope_changes(self._model, num_prompt, num_prompt + num_response):
            return "its rotary frequencies change with the length while it answers"
        reason = kind.masking_refusal(self._model)
        return reason or self._probe(kind, masked=True)

    def _is_right_at_once(self) -> bool:
        return not any(self._probe(PackedAtOnce, masked=masked) for masked in (False, True))

    def _probe(self, kind: type[LocalPrefix], *, masked: bool) -> str | None:
        """Why a probe rules the implementation out, or None."""
        run = self._probes.masked if masked else self._probes.exact
        outcome = partial(self._outcome, kind, partial(run, kind), masked=masked)
        return self._derived.value((kind, masked), outcome)

    def _outcome(
        self, kind: type[LocalPrefix], run: Callable[[], float], *, masked: bool
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

    def _log(self, kind: type[LocalPrefix], reason: object) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning("%s is not used for the model %s: %s", kind.name, self._name, reason)
