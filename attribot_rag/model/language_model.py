"""A model and its own tokenizer, which always stay together."""

from __future__ import annotations

import copy
import operator
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, cast

from tokenizers.decoders import DecodeStream

from attribot_rag.cached_property import cached_property
from attribot_rag.errors import ContextTooLong, InvalidInput, TokenizerMismatch
from attribot_rag.model.chat_messages import Message, is_message, render
from attribot_rag.model.threads import Background, ForkSafe

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Prompt = str | Sequence[Message] | Sequence[int]

_MAX_INCOMPLETE = 16  # tokens; a character has at most four bytes
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")


class Weights(Protocol):
    """The weights of a model, in this process or on a server."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def background(self) -> Background:
        """The tasks that wait for this model."""

    @property
    def concurrency(self) -> int:
        """How many attributions are best run at a time."""

    def turn(self) -> AbstractContextManager[None]:
        """Wait for the model's turn, and keep it for the block; see `Turn.taken`."""

    def give_way(self) -> float:
        """Let others go first; see `Turn.give_way`."""

    @property
    def device(self) -> torch.device:
        """The device of the log-probabilities, which `dtype` also describes.

        The names of device and dtype describe the weights.
        """

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device_name(self) -> str: ...

    @property
    def dtype_name(self) -> str: ...

    @property
    def dequantized(self) -> bool:
        """Whether they come from a GGUF file, as floats."""

    @property
    def noise(self) -> float | None:
        """The largest difference in nats at a token between two calls; None for weights here."""

    @property
    def num_parameters(self) -> int:
        """The number of parameters; 0 if it is unknown."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def max_positions(self) -> int | None:
        """The longest sequence in tokens; None without a limit."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a response, by the generation configuration."""


class LanguageModel:
    """A model with the tokenizer it was trained with: a `LocalModel` or a `ServedModel`.

    Raises InvalidInput if the tokenizer is not loaded, and TokenizerMismatch if it has ids without
    an embedding in the model, or covers less than half of the model's vocabulary.
    """

    def __init__(self, weights: Weights, tokenizer: PreTrainedTokenizerBase) -> None:
        from transformers import PreTrainedTokenizerBase  # takes a second to import

        check_loaded("tokenizer", tokenizer, PreTrainedTokenizerBase)
        self.weights = weights
        self.tokenizer = tokenizer
        self._private = _PrivateTokenizer(tokenizer)
        tokenizer_size, model_size = len(tokenizer), self.vocabulary_size
        if tokenizer_size > model_size or tokenizer_size < model_size / 2:
            name = without_folder(tokenizer.name_or_path)
            raise TokenizerMismatch(
                f"the tokenizer {name!r} has {tokenizer_size} tokens, the model "
                f"{self.public_name!r} embeds {model_size}; load both from the same checkpoint"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self.weights.device_name})"

    @property
    def name(self) -> str:
        return self.weights.name

    @property
    def public_name(self) -> str:
        """The model's name without its folder. Results and errors contain this name, because
        strangers may read them."""
        return without_folder(self.name)

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.dtype

    @property
    def vocabulary_size(self) -> int:
        return self.weights.vocabulary_size

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end a response, from the generation configuration and from the tokenizer."""
        return frozenset({*self.weights.eos_ids, self.tokenizer.eos_token_id} - {None})

    def check_length(self, num_prompt_tokens: int, num_response_tokens: int) -> None:
        """Raises ContextTooLong if the model has fewer positions than these tokens need."""
        limit = self.weights.max_positions
        length = num_prompt_tokens + num_response_tokens - 1
        if limit is not None and length > limit:
            raise ContextTooLong(
                f"prompt and response take {length} tokens, {self.public_name!r} has {limit}; "
                "retrieve fewer or shorter documents"
            )

    def room(self, num_prompt_tokens: int) -> int | None:
        """The most tokens of a response after a prompt of this length; None without a limit.

        Raises ContextTooLong if there is no room.
        """
        self.check_length(num_prompt_tokens, 1)
        limit = self.weights.max_positions
        return None if limit is None else limit + 1 - num_prompt_tokens

    @cached_property
    def boundary_ids(self) -> frozenset[int]:
        """Ids of added and special tokens. Tokenizers never merge text across them."""
        return frozenset(self.tokenizer.added_tokens_decoder)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """The ids of a text. With `special`, strings such as `<|im_end|>` become special tokens.

        Raises InvalidInput for half of a surrogate pair, which no tokenizer takes.
        """
        return self._encode(text, add_special_tokens=False, split_special_tokens=not special)

    def _encode(self, text: str, **settings: bool) -> tuple[int, ...]:
        check_characters("the text", text)
        with self._private.locked() as tokenizer:
            return tuple(tokenizer(text, verbose=False, **settings)["input_ids"])

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids, with the spaces of the tokens."""
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
        """For each token, the text that this token completes, or None if it completes no text.

        Returns None instead of a list for a slow tokenizer, and for ids that cannot be streamed: a
        broken character changes the text before it, or a long run of tokens completes no text.
        """
        pieces: list[str | None] = []
        decode_stream = DecodeStream(skip_special_tokens=skip_special_tokens)
        with self._private.locked() as tokenizer:
            backend = getattr(tokenizer, "backend_tokenizer", None)
            if backend is None:
                return None
            for token_id in ids:
                try:
                    pieces.append(decode_stream.step(backend, token_id))
                except Exception:  # tokenizers has no narrower class for an invalid prefix
                    return None
                if len(pieces) > _MAX_INCOMPLETE and not any(pieces[-_MAX_INCOMPLETE - 1 :]):
                    return None
        return pieces

    def encode_prompt(self, prompt: Prompt) -> tuple[int, ...]:
        """The ids of a prompt: rendered text, chat messages or ids.

        Rendered text gets the tokenizer's special tokens, without a second BOS if it begins with
        one. Raises InvalidInput for an empty prompt, or messages that cannot be rendered, and
        TokenizerMismatch for ids outside the vocabulary.
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
                    f"{self.public_name!r}; pass ids made by this model's own tokenizer"
                )
        return ids

    def _encode_rendered(self, prompt: str) -> tuple[int, ...]:
        bos = self.tokenizer.bos_token
        rendered_with_bos = bool(bos) and prompt.startswith(str(bos))
        ids = self._encode(prompt, add_special_tokens=not rendered_with_bos)
        ends_with_added_eos = (
            len(ids) > 1
            and ids[-1] == self.tokenizer.eos_token_id
            and not prompt.endswith(str(self.tokenizer.eos_token))
        )
        return ids[:-1] if ends_with_added_eos else ids


def without_folder(name: str) -> str:
    """A model's name without the folder that it was loaded from. A hub id keeps its owner."""
    path = PurePath(name)
    is_path = path.is_absolute() or name.startswith(".") or len(path.parts) > 2
    return path.name if is_path else name


def check_characters(name: str, text: str) -> None:
    """Raises InvalidInput for half of a surrogate pair in a text, and calls the text `name`."""
    if half := _HALF_OF_A_PAIR.search(text):
        raise InvalidInput(
            f"{name} has half of a surrogate pair, U+{ord(half.group()):04X}, at character "
            f"{half.start()}, as a text that was cut in an emoji; leave it out, or replace it by "
            "U+FFFD"
        )


def is_chat(prompt: Prompt) -> bool:
    return is_message(next(iter(prompt), None))


def plain_ids(ids: Sequence[int]) -> tuple[int, ...]:
    """Integers of a list, a tuple, or a row of a tensor; raises InvalidInput for anything else."""
    try:
        return tuple(map(operator.index, ids.tolist() if hasattr(ids, "tolist") else ids))
    except TypeError as error:
        raise InvalidInput(
            f"{ids!r:.80} is neither text nor token ids; pass a text, a prompt also as "
            "dicts of role and content, or the integers of a list or of a tensor's row"
        ) from error


def check_loaded(field: str, value: object, kind: type) -> None:
    from transformers import PreTrainedTokenizerBase

    if not isinstance(value, kind):
        if field == "model" and isinstance(value, PreTrainedTokenizerBase):
            raise InvalidInput(
                f"a {type(value).__name__} was passed as the model; the model comes first, then "
                "its tokenizer"
            )
        name = value if isinstance(value, str) else "gpt2"
        shown = (
            repr(value) if isinstance(value, str | None) else f"an object of {type(value).__name__}"
        )
        raise InvalidInput(
            f"{shown} is not a loaded {field}; pass load_model({name!r}).{field}, or one that "
            f"transformers loaded, such as a pipeline's .{field}"
        )


class _PrivateTokenizer(ForkSafe):
    """A copy of the caller's tokenizer, which only one thread uses at a time.

    Encoding changes the settings of a fast tokenizer, and the caller may be encoding in another
    thread. The copy is made on first use, and again in a forked process, where it may be in use.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        super().__init__()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._copy: PreTrainedTokenizerBase | None = None

    @contextmanager
    def locked(self) -> Iterator[PreTrainedTokenizerBase]:
        """The copy, for this thread alone."""
        with self._lock:
            if self._copy is None:
                self._copy = copy.deepcopy(self._tokenizer)
            yield self._copy
