"""A model and its own tokenizer, which always travel together."""

from __future__ import annotations

import operator
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.errors import ContextTooLong, InvalidInput, TokenizerMismatch, UnsupportedModel
from attribot_rag.model.chat_messages import Message, render
from attribot_rag.model.tokenizer import PrivateTokenizer, stream

_PLACEHOLDER = re.compile(r"(image|video|vision|audio|speech|bo[iav]|eo[iav])\w*_token_(id|index)$")

Prompt = str | Sequence[Message] | Sequence[int]


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A loaded Hugging Face model with the tokenizer it was trained with.

    A compiled model, and a model with PEFT's adapters, may be given as it is wrapped; `model` is
    what is wrapped. Raises InvalidInput if either is not loaded, TokenizerMismatch if the tokenizer
    has ids for which the model has no embedding, or covers less than half of its vocabulary,
    UnsupportedModel for PEFT's prompt learning.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    _private: PrivateTokenizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _plain_model(self.model))
        _check_loaded("model", self.model, torch.nn.Module)
        _check_loaded("tokenizer", self.tokenizer, PreTrainedTokenizerBase)
        object.__setattr__(self, "_private", PrivateTokenizer(self.tokenizer))
        tokenizer_size, model_size = len(self.tokenizer), self.vocabulary_size
        if tokenizer_size > model_size or tokenizer_size < model_size / 2:
            raise TokenizerMismatch(
                f"the tokenizer {self.tokenizer.name_or_path!r} has {tokenizer_size} tokens, the "
                f"model {self.name!r} embeds {model_size}; load both from the same checkpoint"
            )

    @classmethod
    def of(
        cls, model: PreTrainedModel | LanguageModel, tokenizer: PreTrainedTokenizerBase | None
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
        return cls(model, tokenizer)  # which says what is not loaded

    @property
    def identity(self) -> Hashable:
        """The same object for everyone who uses these weights."""
        return self.model

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
        positions = getattr(
            self.model.config.get_text_config(decoder=True), "max_position_embeddings", None
        )
        return int(positions) if positions and positions > 0 else None  # XLNet says -1

    def check_length(self, num_prompt_tokens: int, num_response_tokens: int) -> None:
        """Raises ContextTooLong if the model has fewer positions than these tokens need."""
        limit = self.max_positions
        lengths = (num_prompt_tokens, num_response_tokens - 1)
        length = max(lengths) if self.is_encoder_decoder else sum(lengths)
        if limit is not None and length > limit:
            raise ContextTooLong(
                f"prompt and response take {length} positions, {self.name!r} has {limit}; "
                "retrieve fewer or shorter documents"
            )

    @cached_property
    def boundary_ids(self) -> frozenset[int]:
        """Ids of added and special tokens, across which tokenizers never merge."""
        return frozenset(self.tokenizer.added_tokens_decoder)

    @cached_property
    def placeholder_ids(self) -> frozenset[int]:
        """Ids that stand for something else than text in a prompt: images, video, audio."""
        return placeholder_ids(self.model)

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a response: the generation configuration's and the tokenizer's."""
        configured = getattr(self.model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured]
        return frozenset(i for i in (*ids, self.tokenizer.eos_token_id) if i is not None)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """The ids of a text without added tokens.

        With `special`, a string such as `<|im_end|>` becomes its special token, otherwise ordinary
        tokens.
        """
        return self._encode(text, add_special_tokens=False, split_special_tokens=not special)

    def _encode(self, text: str, **settings: bool) -> tuple[int, ...]:
        with self._private.locked() as tokenizer:
            return tuple(tokenizer(text, verbose=False, **settings)["input_ids"])

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids, with the spaces that the tokens have."""
        with self._private.locked() as tokenizer:
            text = tokenizer.decode(
                list(ids),
                skip_special_tokens=skip_special_tokens,
                clean_up_tokenization_spaces=False,
            )
        return str(text)

    def stream(
        self, ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> list[str | None] | None:
        """For each token the text that it completes, None if it takes a later token to do so.

        None instead of a list for a slow tokenizer, and for ids that cannot be streamed.
        """
        with self._private.locked() as tokenizer:
            backend = getattr(tokenizer, "backend_tokenizer", None)
            if backend is None:
                return None
            return stream(backend, ids, self.boundary_ids, skip_special_tokens=skip_special_tokens)

    def encode_prompt(self, prompt: Prompt) -> tuple[int, ...]:
        """The ids of a prompt given as rendered text, as chat messages or as ids.

        Rendered text gets the tokenizer's own special tokens, without a second BOS if it starts
        with the string of BOS. Raises InvalidInput for an empty prompt or messages that cannot be
        rendered, TokenizerMismatch for ids outside the vocabulary.
        """
        if isinstance(prompt, str):
            ids = self._encode_rendered(prompt) if prompt.strip() else ()
        elif is_chat(prompt):
            rendered = render(cast(Sequence[Message], prompt), self.tokenizer)
            ids = self.encode(rendered, special=True)
        else:
            ids = self.check_ids(plain_ids(cast(Sequence[int], prompt)))
        if not ids:
            raise InvalidInput(f"the prompt is empty: {prompt!r}; pass what the model was given")
        return ids

    def check_ids(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        size = self.vocabulary_size
        for token_id in ids:
            if not 0 <= token_id < size:
                raise TokenizerMismatch(
                    f"token id {token_id} is outside the {size} embeddings of "
                    f"{self.name!r}; pass ids made by this model's own tokenizer"
                )
        return ids

    def _encode_rendered(self, prompt: str) -> tuple[int, ...]:
        bos = self.tokenizer.bos_token
        rendered_with_bos = bool(bos) and prompt.startswith(str(bos))
        ids = self._encode(prompt, add_special_tokens=not rendered_with_bos)
        ends_with_added_eos = (
            not self.is_encoder_decoder
            and len(ids) > 1
            and ids[-1] == self.tokenizer.eos_token_id
            and not prompt.endswith(str(self.tokenizer.eos_token))
        )
        return ids[:-1] if ends_with_added_eos else ids


def placeholder_ids(model: PreTrainedModel) -> frozenset[int]:
    """Ids that stand for something else than text, by the model's configuration."""
    return frozenset(
        value
        for name, value in vars(model.config).items()
        if isinstance(value, int) and _PLACEHOLDER.match(name)
    )


def decoder_start_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """What the decoder of an encoder-decoder begins with, by its generation configuration."""
    generation_config = getattr(model, "generation_config", None)
    configured = (
        getattr(generation_config, "decoder_start_token_id", None),
        getattr(model.config, "decoder_start_token_id", None),
        getattr(generation_config, "bos_token_id", None),
    )
    known = next((token_id for token_id in configured if token_id is not None), None)
    if known is None:
        raise UnsupportedModel(
            f"{type(model).__name__} has no decoder_start_token_id; set it in "
            "model.generation_config"
        )
    return (int(known),)


def _plain_model(model: object) -> object:
    """The model that transformers made, inside of what `torch.compile` and PEFT wrap around it.

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


def _check_loaded(field: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        if field == "model" and isinstance(value, PreTrainedTokenizerBase):
            raise InvalidInput(
                f"a {type(value).__name__} was passed as the model; the model comes first, then "
                "its tokenizer"
            )
        name = value if isinstance(value, str) else "gpt2"
        given = repr(value) if isinstance(value, str | None) else f"a {type(value).__name__}"
        raise InvalidInput(
            f"{given} is not a loaded {field}; pass load_model({name!r}).{field}, or one that "
            "transformers loaded"
        )


def is_chat(prompt: Prompt) -> bool:
    return isinstance(next(iter(prompt), None), Mapping)


def plain_ids(ids: Sequence[int]) -> tuple[int, ...]:
    """Token ids as plain integers, from a list, a tuple, or a row of a tensor or array.

    Raises InvalidInput for anything else.
    """
    try:
        return tuple(map(operator.index, ids.tolist() if hasattr(ids, "tolist") else ids))
    except TypeError as error:
        raise InvalidInput(
            f"{ids!r:.80} are not token ids; pass the integers of one prompt, such as a row of a "
            "tensor"
        ) from error
