"""The backend of a model in this process, shared by all users of its weights."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager
from typing import ClassVar, cast
from weakref import WeakValueDictionary

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.background import Background
from attribot_rag.model.turn import Turn

_PLACEHOLDER = re.compile(r"(image|video|vision|audio|speech|bo[iav]|eo[iav])\w*_token_(id|index)$")

_making = threading.Lock()


class LocalBackend:
    """The weights of a loaded model, used by one thread at a time.

    `generates_here` says that `generate` runs in this process, where it can be recorded;
    `concurrency` is the best number of attributions at a time; `noise` would be the largest
    difference in nats at a token between two calls; `dequantized` says that the weights are those
    of a GGUF file, as floats.
    """

    generates_here: ClassVar[bool] = True
    concurrency: ClassVar[int] = 1
    noise: ClassVar[float | None] = None
    _backends: ClassVar[WeakValueDictionary[int, LocalBackend]] = WeakValueDictionary()

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.background = Background()
        self.dequantized = False
        self._turn = Turn()

    @classmethod
    def of(cls, model: object) -> LocalBackend:
        """The backend that all users of this model share, compiled or with PEFT's adapters.

        Raises InvalidInput for a model that is not loaded, UnsupportedModel for PEFT's prompt
        learning.
        """
        model = _plain_model(model)
        check_loaded("model", model, torch.nn.Module)
        with _making:
            return cls._backends.setdefault(id(model), cls(cast(PreTrainedModel, model)))

    def turn(self) -> AbstractContextManager[None]:
        """Wait for the model's turn, and keep it for the block, see `Turn.taken`."""
        return self._turn.taken()

    def give_way(self) -> float:
        """Let others go first that have had less of the turn, see `Turn.give_way`."""
        return self._turn.give_way()

    @property
    def name(self) -> str:
        return self.model.name_or_path or type(self.model).__name__

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def device_name(self) -> str:
        return str(self.device)

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def is_encoder_decoder(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    @property
    def vocabulary_size(self) -> int:
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    @property
    def num_parameters(self) -> int:
        return int(self.model.num_parameters())

    @property
    def max_positions(self) -> int | None:
        """The longest sequence in tokens, or None where the architecture has no limit."""
        config = self.model.config.get_text_config(decoder=True)
        positions = getattr(config, "max_position_embeddings", None)
        return int(positions) if positions and positions > 0 else None  # XLNet says -1

    @property
    def placeholder_ids(self) -> frozenset[int]:
        """Ids that stand for something else than text in a prompt: images, video, audio."""
        return placeholder_ids(self.model)

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a response, by the generation configuration."""
        configured = getattr(self.model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured]
        return frozenset(ids) - {None}


def placeholder_ids(model: PreTrainedModel) -> frozenset[int]:
    """Ids that stand for something else than text, by the model's configuration."""
    return frozenset(
        value
        for name, value in vars(model.config).items()
        if isinstance(value, int) and _PLACEHOLDER.match(name)
    )


def decoder_start_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """The ids with which a decoder begins, by its generation configuration."""
    generation_config = getattr(model, "generation_config", None)
    configured = (
        getattr(generation_config, "decoder_start_token_id", None),
        getattr(model.config, "decoder_start_token_id", None),
        getattr(generation_config, "bos_token_id", None),
    )
    start_id = next((token_id for token_id in configured if token_id is not None), None)
    if start_id is None:
        raise UnsupportedModel(
            f"{type(model).__name__} has no decoder_start_token_id; set it in "
            "model.generation_config"
        )
    return (int(start_id),)


def _plain_model(model: object) -> object:
    """The model of transformers inside the wrappers of `torch.compile` and PEFT.

    Raises UnsupportedModel where PEFT puts virtual tokens before the prompt.
    """
    while True:
        compiled = getattr(model, "_orig_mod", None)
        adapted = getattr(model, "get_base_model", None)
        if isinstance(compiled, torch.nn.Module):
            model = compiled
        elif callable(adapted) and not isinstance(model, PreTrainedModel):
            kind = getattr(model, "active_peft_config", None)
            if getattr(kind, "is_prompt_learning", False):
                raise UnsupportedModel(
                    f"the adapter is of PEFT's type {getattr(kind, 'peft_type', '?')}, whose "
                    "virtual tokens stand before the prompt and have no ids; adapters of weights, "
                    "as LoRA, can be scored"
                )
            model = adapted()
        else:
            return model


def check_loaded(field: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        if field == "model" and isinstance(value, PreTrainedTokenizerBase):
            raise InvalidInput(
                f"a {type(value).__name__} was passed as the model; the model comes first, then "
                "its tokenizer"
            )
        name = value if isinstance(value, str) else "gpt2"
        shown = repr(value) if isinstance(value, str | None) else f"a {type(value).__name__}"
        raise InvalidInput(
            f"{shown} is not a loaded {field}; pass load_model({name!r}).{field}, or one that "
            "transformers loaded"
        )
