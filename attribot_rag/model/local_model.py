"""A model in this process, whose weights all of its users share."""

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
from attribot_rag.model.language_model import LanguageModel, check_loaded
from attribot_rag.model.turn import Turn

_PLACEHOLDER = re.compile(r"(image|video|vision|audio|speech|bo[iav]|eo[iav])\w*_token_(id|index)$")

_making = threading.Lock()


class LocalModel(LanguageModel):
    """A loaded Hugging Face model with the tokenizer it was trained with.

    Raises InvalidInput if either is not loaded, TokenizerMismatch as `LanguageModel`,
    UnsupportedModel for PEFT's prompt learning.

    Args:
        model: Perhaps compiled, or wrapped with PEFT's adapters; the attribute `model` is the model
            inside, and `weights` is shared by all that use it.
        tokenizer: The model's own.
    """

    weights: LocalWeights

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(LocalWeights.of(model), tokenizer)

    @property
    def model(self) -> PreTrainedModel:
        return self.weights.model


def language_model_of(
    model: PreTrainedModel | LanguageModel, tokenizer: PreTrainedTokenizerBase | None
) -> LanguageModel:
    """A LanguageModel as it is, or one of a model with its tokenizer.

    Raises InvalidInput for a model without tokenizer, and a LanguageModel with another one.
    """
    if isinstance(model, LanguageModel):
        if tokenizer is not None and tokenizer is not model.tokenizer:
            raise InvalidInput("a LanguageModel has its own tokenizer; leave the other one out")
        return model
    if tokenizer is None and isinstance(model, torch.nn.Module):
        raise InvalidInput(
            f"the {type(model).__name__} came without its tokenizer; pass that as the second "
            "argument, or a LanguageModel, such as load_model gives, alone"
        )
    return LocalModel(model, tokenizer)  # raises for what is not loaded


def model_here(language_model: LanguageModel) -> PreTrainedModel:
    """The model of transformers; raises UnsupportedModel where the weights are on a server."""
    if isinstance(language_model, LocalModel):
        return language_model.model
    raise UnsupportedModel(
        f"{language_model.public_name!r} is on the server at {language_model.weights.device_name}; "
        "what was asked for needs its weights on this machine"
    )


class LocalWeights:
    """The weights of a loaded model, used by one thread at a time; see `Weights`."""

    concurrency: ClassVar[int] = 1
    noise: ClassVar[float | None] = None
    _shared: ClassVar[WeakValueDictionary[int, LocalWeights]] = WeakValueDictionary()

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.background = Background()
        self.dequantized = False
        self._turn = Turn()

    @classmethod
    def of(cls, model: object) -> LocalWeights:
        """The weights that all users of this model share, compiled or with PEFT's adapters.

        Raises InvalidInput for a model that is not loaded, UnsupportedModel for PEFT's prompt
        learning.
        """
        model = _plain_model(model)
        check_loaded("model", model, torch.nn.Module)
        with _making:
            return cls._shared.setdefault(id(model), cls(cast(PreTrainedModel, model)))

    def turn(self) -> AbstractContextManager[None]:
        return self._turn.taken()

    def give_way(self) -> float:
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
        config = self.model.config.get_text_config(decoder=True)
        positions = getattr(config, "max_position_embeddings", None)
        return int(positions) if positions and positions > 0 else None  # XLNet says -1

    @property
    def placeholder_ids(self) -> frozenset[int]:
        return placeholder_ids(self.model)

    @property
    def eos_ids(self) -> frozenset[int]:
        configured = getattr(self.model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured]
        return frozenset(ids) - {None}

    @property
    def decoder_start_ids(self) -> tuple[int, ...]:
        return decoder_start_ids(self.model)


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
