"""A model and its own tokenizer, which always travel together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.errors import InvalidInput, TokenizerMismatch

Message = Mapping[str, Any]
Prompt = str | Sequence[Message] | Sequence[int]


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A loaded Hugging Face model with the tokenizer it was trained with.

    Raises TokenizerMismatch if the tokenizer knows ids that the model has no embedding for, or
    covers less than half of the model's vocabulary.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def __post_init__(self) -> None:
        tokenizer_size, model_size = len(self.tokenizer), self.vocabulary_size
        if tokenizer_size > model_size or tokenizer_size < model_size / 2:
            raise TokenizerMismatch(
                f"the tokenizer {self.tokenizer.name_or_path!r} has {tokenizer_size} tokens, the "
                f"model {self.name!r} embeds {model_size}; load both from the same checkpoint"
            )

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
    def is_encoder_decoder(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    @property
    def vocabulary_size(self) -> int:
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    @property
    def max_positions(self) -> int | None:
        """The longest sequence in tokens, or None where the architecture has no limit."""
        positions = getattr(
            self.model.config.get_text_config(decoder=True), "max_position_embeddings", None
        )
        return int(positions) if positions else None

    @cached_property
    def boundary_ids(self) -> frozenset[int]:
        """Ids of added tokens (special ones included): tokenizers never merge across them."""
        return frozenset(self.tokenizer.added_tokens_decoder)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """The ids of a piece of text, nothing added; `special` also parses special-token strings.

        Without `special`, a string such as `<|im_end|>` becomes ordinary text tokens.
        """
        encoded = self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=not special, verbose=False
        )
        return tuple(encoded["input_ids"])

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        text = self.tokenizer.decode(
            list(ids),
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
        return str(text)

    def encode_prompt(self, prompt: Prompt) -> tuple[int, ...]:
        """The ids of a prompt given as rendered text, as chat messages or as ids.

        Rendered text gets the tokenizer's own special tokens, except a BOS that it already
        starts with. Raises InvalidInput for an empty prompt or ids outside the vocabulary.
        """
        if isinstance(prompt, str):
            ids = self._encode_rendered(prompt)
        elif prompt and isinstance(prompt[0], Mapping):
            rendered = self.tokenizer.apply_chat_template(
                [dict(message) for message in prompt if isinstance(message, Mapping)],
                tokenize=False,
                add_generation_prompt=True,
            )
            ids = self.encode(str(rendered), special=True)
        else:
            ids = self.check_ids(tuple(int(i) for i in prompt if not isinstance(i, Mapping)))
        if not ids or (isinstance(prompt, str) and not prompt.strip()):
            raise InvalidInput(f"the prompt is empty: {prompt!r}; pass what the model was given")
        return ids

    def check_ids(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        for token_id in ids:
            if not 0 <= token_id < self.vocabulary_size:
                raise TokenizerMismatch(
                    f"token id {token_id} is outside the {self.vocabulary_size} embeddings of "
                    f"{self.name!r}; pass ids made by this model's own tokenizer"
                )
        return ids

    def _encode_rendered(self, prompt: str) -> tuple[int, ...]:
        bos = self.tokenizer.bos_token
        rendered_with_bos = bool(bos) and prompt.startswith(str(bos))
        encoded = self.tokenizer(prompt, add_special_tokens=not rendered_with_bos, verbose=False)
        ids = tuple(encoded["input_ids"])
        ends_with_added_eos = (
            not self.is_encoder_decoder
            and len(ids) > 1
            and ids[-1] == self.tokenizer.eos_token_id
            and not prompt.endswith(str(self.tokenizer.eos_token))
        )
        return ids[:-1] if ends_with_added_eos else ids
