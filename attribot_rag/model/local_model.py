"""A model in this process, with its state. All its users share the weights."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from enum import Enum
from itertools import chain
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.language_model import LanguageModel, check_loaded
from attribot_rag.model.threads import Background, Turn

_PLACEHOLDER = re.compile(r"(image|video|vision|audio|speech|bo[iav]|eo[iav])\w*_token_(id|index)$")

_making = threading.Lock()


class LocalModel(LanguageModel):
    """A loaded Hugging Face model with the tokenizer it was trained with.

    Raises InvalidInput if one of them is not loaded, TokenizerMismatch as LanguageModel does, and
    UnsupportedModel for PEFT's prompt learning, an encoder-decoder and RWKV.

    Args:
        model: The loaded model, which may be compiled or have PEFT's adapters. The attribute
            `model` is the model without these wrappers. All users of a model share its `weights`.
        tokenizer: The tokenizer that the model was trained with.
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
    """A LanguageModel as it is, or a new one from a model and its tokenizer.

    Raises InvalidInput for a model without a tokenizer, and for a LanguageModel with another one.
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
    return LocalModel(model, tokenizer)  # raises InvalidInput if they are not loaded


def model_here(language_model: LanguageModel) -> PreTrainedModel:
    """The model of transformers. Raises UnsupportedModel if the weights are on a server."""
    if isinstance(language_model, LocalModel):
        return language_model.model
    raise UnsupportedModel(
        f"{language_model.public_name!r} is on the server at {language_model.weights.device_name}; "
        "what was asked for needs its weights on this machine"
    )


class LocalWeights:
    """The weights of a loaded model, which one thread uses at a time; see `Weights`."""

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
        """The weights of this model, compiled or with PEFT's adapters, which all its users share.

        Raises InvalidInput for a model that is not loaded, and UnsupportedModel for PEFT's prompt
        learning, an encoder-decoder and RWKV.
        """
        model = _plain_model(model)
        check_loaded("model", model, torch.nn.Module)
        check_architecture(getattr(model, "config", None))
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
    def eos_ids(self) -> frozenset[int]:
        configured = getattr(self.model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured]
        return frozenset(ids) - {None}


def check_architecture(config: Any) -> None:
    """Raises UnsupportedModel for an encoder-decoder and for RWKV."""
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            f"{config.model_type!r} is an encoder-decoder, which is not scored; answer with a "
            "causal language model, or let one read the answer"
        )
    if getattr(config, "model_type", None) == "rwkv":
        raise UnsupportedModel(
            "'rwkv' divides its weights while it runs, so that no other pass may share them; "
            "answer with another causal language model, or let one read the answer"
        )


def placeholder_ids(model: PreTrainedModel) -> frozenset[int]:
    """Ids that stand for something other than text, by the model's configuration."""
    return frozenset(
        value
        for name, value in vars(model.config).items()
        if isinstance(value, int) and _PLACEHOLDER.match(name)
    )


def _plain_model(model: object) -> object:
    """The model of transformers inside the wrappers of `torch.compile` and PEFT.

    Raises UnsupportedModel if PEFT puts virtual tokens before the prompt.
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


_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, Enum)
_NO_STATE = frozenset(
    {
        *("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"),
        *("training", "generate", "_get_logits_processor", "generation_config"),
        "_compiled_call_impl",
        *("_is_hf_initialized", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook"),
        *("_state_dict_hooks", "_state_dict_pre_hooks"),
        *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    }
)
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_PLAIN = frozenset({type(None), bool, int, float, str})


class ModelState:
    """Everything on a model's modules that may affect its forward pass.

    This includes their tensors and everything that is set on them: active adapters, hooks, replaced
    attributes and methods, the configuration. Two states are equal if none of it changed in
    between. A hook or a replaced method may read something else, which is not noticed
    (`reads_elsewhere`). To read it takes about 10 ms for 400 modules.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, model: torch.nn.Module) -> None:
        # Objects that the key has by identity. They must stay alive, because ids are reused.
        self._by_identity: list[weakref.ref[Any]] = []
        self._described: dict[int, object] = {}
        key: list[object] = []
        for module in model.modules():
            own = vars(module).copy()  # another thread may attach a recorder at the same time
            for name, value in own.items():
                if name not in _NO_STATE:
                    key.append((name, value if type(value) in _PLAIN else self._describe(value)))
            for tensor in chain(own["_parameters"].values(), own["_buffers"].values()):
                key.append(self._describe(tensor))
        self._key = key
        self._described.clear()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ModelState)
            and self._key == other._key
            and all(ref() is not None for ref in chain(self._by_identity, other._by_identity))
        )

    def _describe(self, value: Any) -> object:
        """A description, which is equal for equal values."""
        if isinstance(value, _PRIMITIVES):
            return value
        if isinstance(value, _CONTAINERS) and not value:
            return ()
        if id(value) not in self._described:
            self._described[id(value)] = id(value)  # for values that contain themselves
            self._described[id(value)] = self._describe_object(value)
        return self._described[id(value)]

    def _describe_object(self, value: Any) -> object:
        if isinstance(value, torch.Tensor) and value.is_meta:
            return value.shape  # offloaded: a new tensor takes its place after every forward pass
        if isinstance(value, torch.Tensor):
            version = None if value.is_inference() else value._version
            return self._identity(value), value.device, value.data_ptr(), version
        if isinstance(value, PreTrainedConfig):
            value = vars(value)
        if isinstance(value, Mapping):
            parts = tuple(value.items())
            return tuple((self._describe(key), self._describe(part)) for key, part in parts)
        if isinstance(value, list | tuple):
            return tuple(map(self._describe, value))
        if isinstance(value, set | frozenset):
            return frozenset(map(self._describe, value))
        return self._identity(value)

    def _identity(self, value: object) -> int:
        with suppress(TypeError):  # an object with slots
            self._by_identity.append(weakref.ref(value))
        return id(value)


_versions: WeakKeyDictionary[torch.nn.Module, tuple[int, ModelState]] = WeakKeyDictionary()
_comparing = threading.Lock()


def model_version(model: torch.nn.Module) -> int:
    """A number that grows with every change of the model's state that is noticed here."""
    current = ModelState(model)
    with _comparing:
        version, latest = _versions.get(model, (0, None))
        if current != latest:
            version += 1
            _versions[model] = version, current
        return version


def reads_elsewhere(model: torch.nn.Module) -> bool:
    """Whether hooks or replaced methods may change its forward pass without changing its state."""
    return any(
        own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own
        for own in map(vars, model.modules())
    )
