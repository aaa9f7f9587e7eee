"""The weights of a model: what all language models that have the same weights share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch

from attribot_rag.model.background import Background


class Weights(Protocol):
    """The weights of a model and what is known of it, here or on a server."""

    @property
    def name(self) -> str: ...

    @property
    def background(self) -> Background:
        """The tasks that wait for this model."""

    @property
    def concurrency(self) -> int:
        """The best number of attributions at a time."""

    def turn(self) -> AbstractContextManager[None]:
        """Wait for the model's turn, and keep it for the block, see `Turn.taken`."""

    def give_way(self) -> float:
        """Let others go first that have had less of the turn, see `Turn.give_way`."""

    @property
    def device(self) -> torch.device:
        """The device of the log-probabilities, and so `dtype`; their names are the weights'."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device_name(self) -> str: ...

    @property
    def dtype_name(self) -> str: ...

    @property
    def dequantized(self) -> bool:
        """Whether they are those of a GGUF file, as floats."""

    @property
    def noise(self) -> float | None:
        """The largest difference in nats at a token between two calls; None for weights here."""

    @property
    def num_parameters(self) -> int:
        """0 where nobody said."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def max_positions(self) -> int | None:
        """The longest sequence in tokens, or None where there is no limit."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a response, by the generation configuration."""

    @property
    def placeholder_ids(self) -> frozenset[int]:
        """Ids that stand for something else than text in a prompt: images, video, audio."""

    @property
    def is_encoder_decoder(self) -> bool: ...

    @property
    def decoder_start_ids(self) -> tuple[int, ...]:
        """The ids with which an encoder-decoder's decoder begins."""
