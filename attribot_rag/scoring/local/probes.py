"""Short forward passes that show whether an implementation is right for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import Derived, placeholder_ids
from attribot_rag.scoring.local.prefix import LocalPrefix
from attribot_rag.scoring.local.reference import Reference
from attribot_rag.scoring.memory import is_out_of_memory
from attribot_rag.scoring.row import Row

FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Errors of models for inputs that they do not take."""

_SAME = 1e-5  # nats: a token that is not seen changes nothing, not even by rounding
_PROMPT_TOKENS = 24
_RESPONSE_TOKENS = 4


def tolerance(dtype: torch.dtype) -> float:
    """Nats per response token by which implementations may differ because of rounding."""
    return 1e-3 if dtype in (torch.float32, torch.float64) else 0.25


class Probes:
    """Differences in nats over 24 prompt and 4 response tokens, which are the same for every run.

    `make` gives the prefix of a generation, `twin` the twin with an attention function. What the
    reference says of the plain prompt is kept in `derived`, as several probes go by it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        make: Callable[[type[LocalPrefix], Generation], LocalPrefix],
        twin: Callable[[str | None], PreTrainedModel],
        derived: Derived,
    ) -> None:
        self._model = model
        self._derived = derived
        self._make = make
        self._twin = twin
        self._num_ids = int(model.config.get_text_config(decoder=True).vocab_size)
        generator = torch.Generator().manual_seed(0)
        count = _PROMPT_TOKENS + _RESPONSE_TOKENS
        drawn = torch.randint(self._num_ids, (2 * count,), generator=generator).tolist()
        placeholders = placeholder_ids(model)
        ids = tuple(token_id for token_id in drawn if token_id not in placeholders)[:count]
        self._generation = Generation(ids[:_PROMPT_TOKENS], ids[_PROMPT_TOKENS:])

    def exact(self, kind: type[LocalPrefix]) -> float:
        """Between an implementation and the reference."""
        generation = self._generation
        prompt = generation.prompt_ids
        rows = [
            _full(generation),
            Row.exact((*prompt[:10], *prompt[15:]), 10, generation),
            Row.exact(prompt[1:], 0, generation),
        ]
        truth = torch.cat([self._plain, self._score(Reference, generation, rows[1:])])
        return _largest(self._score(kind, generation, rows), truth)

    def masked(self, kind: type[LocalPrefix]) -> float:
        """Rows that hide nothing must equal the full prompt, other rows the reference.

        Recomputed tokens with gaps between them reveal an architecture that uses their place in
        the input instead of their position.
        """
        generation = self._generation
        tail = range(18, len(generation.prompt_ids))
        rows = [
            Row.masked(generation, (), tail),
            Row.masked(generation, (), (*range(9, 12), *tail)),
            Row.masked(generation, range(5, 9), tail),
            Row.masked(generation, range(5, 9), (*range(9, 12), *tail)),
        ]
        own = getattr(self._model.config, "_attn_implementation", None)
        takes_any_mask = own in ("eager", "sdpa", None)
        twin = self._twin(None if takes_any_mask else "sdpa")
        reference = Reference(twin, generation)
        with torch.no_grad():
            plain = [_full(generation)]
            full = self._plain if takes_any_mask else reference.log_likelihoods(plain)
            truth = torch.cat([full, full, reference.log_likelihoods(rows[2:])])
        return _largest(self._score(kind, generation, rows), truth)

    def stale(self) -> float:
        """Between the plain twin and the model itself."""
        rows = [_full(self._generation)]
        with torch.no_grad():
            truth = Reference(self._model, self._generation).log_likelihoods(rows)
        return _largest(self._score(Reference, self._generation, rows), truth)

    def runs_in_inference_mode(self) -> bool:
        """Whether the model does; with weights that quanto holds in 4 bits it does not."""
        try:
            with torch.inference_mode():
                Reference(self._twin(None), self._generation).score([_full(self._generation)])
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            return False
        return True

    def unscorable(self) -> str | None:
        """Why the model does not predict tokens from earlier tokens alone, or None if it does."""
        *before, late, last = self._generation.response_ids
        changed = (*before, (late + 1) % self._num_ids, last)
        other = replace(self._generation, response_ids=changed)
        try:
            scores = [
                row[:, : len(before)]
                for row in (self._plain, self._score(Reference, other, [_full(other)]))
            ]
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            return (
                "a plain forward pass over token ids fails with "
                f"{type(error).__name__}{f': {error}' if str(error) else ''}; load a causal "
                "language model, by AutoModelForCausalLM or its like"
            )
        exactly = self._model.dtype in (torch.float32, torch.float64)
        if _largest(*scores) > (_SAME if exactly else tolerance(self._model.dtype)):
            return (
                "its predictions depend on later tokens, so it is no causal language model; one "
                "that can be both needs config.is_decoder=True; a quantized one must not round a "
                "token by what all tokens hold, as dynamic quantization of a whole tensor does "
                "(quantize weights only, or activations token by token)"
            )
        return None

    @property
    def _plain(self) -> Tensor:
        rows = [_full(self._generation)]
        run = partial(self._score, Reference, self._generation, rows)
        return self._derived.value("plain probe", run)

    def _score(
        self, kind: type[LocalPrefix], generation: Generation, rows: Sequence[Row]
    ) -> Tensor:
        make = partial(self._make, kind, generation)
        is_plain = generation is self._generation  # whose prompt is read once
        prefix = self._derived.value(("probed", kind), make) if is_plain else make()
        with torch.no_grad():
            return prefix.log_likelihoods(rows)


def _full(generation: Generation) -> Row:
    return Row.exact(generation.prompt_ids, len(generation.prompt_ids), generation)


def _largest(scores: Tensor, truth: Tensor) -> float:
    return float((scores - truth).abs().max())
