"""The texts of token ids, token by token, by a tokenizer that threads share."""

from __future__ import annotations

import codecs
import copy
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel, DecodeStream

from attribot_rag.model.forking import ForkSafe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Tokens whose text is incomplete before streaming gives up: a character has at most four bytes.
_MAX_INCOMPLETE = 16


def stream(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    boundary_ids: Collection[int],
    *,
    skip_special_tokens: bool,
) -> list[str | None] | None:
    """For each token the text that it completes, None if it takes a later token to do so.

    None instead of a list for ids that cannot be streamed: a broken character changes the text
    before it, or a long run of tokens completes no text. Byte-level tokens, of which most models'
    vocabularies are made, can always be streamed.
    """
    if isinstance(tokenizer.decoder, ByteLevel):
        return _stream_bytes(tokenizer, ids, boundary_ids, skip_special_tokens)
    pieces: list[str | None] = []
    num_incomplete = 0
    decode_stream = DecodeStream(skip_special_tokens=skip_special_tokens)
    for token_id in ids:
        try:
            piece = decode_stream.step(tokenizer, token_id)
        except Exception:  # tokenizers has no narrower class for an invalid prefix
            return None
        pieces.append(piece)
        num_incomplete = num_incomplete + 1 if piece is None else 0
        if num_incomplete > _MAX_INCOMPLETE:
            return None
    return pieces


def _stream_bytes(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    boundary_ids: Collection[int],
    skip_special_tokens: bool,
) -> list[str | None]:
    """The same from the tokens' bytes; text never goes on after a boundary token or before it."""
    byte_of = _byte_of()
    added = tokenizer.get_added_tokens_decoder()
    skipped = {token_id for token_id, token in added.items() if token.special}

    @cache
    def bytes_of(token_id: int) -> bytes:
        token = tokenizer.id_to_token(token_id)
        if token is None or (skip_special_tokens and token_id in skipped):
            return b""
        if all(letter in byte_of for letter in token):
            return bytes(map(byte_of.__getitem__, token))
        return token.encode()

    pieces: list[str | None] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text: list[str] = []
    for place, token_id in enumerate(ids, 1):
        is_end = place == len(ids) or ids[place] in boundary_ids
        text.append(decoder.decode(bytes_of(token_id), final=is_end))
        is_incomplete = bool(decoder.getstate()[0]) or text[-1][-1:] in ("", "\ufffd")
        if is_incomplete and not is_end:
            pieces.append(None)
        else:
            pieces.append("".join(text))
            text = []
    return pieces


@cache
def _byte_of() -> dict[str, int]:
    """The byte of each character in byte-level vocabularies."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]
    return {letter: byte for byte, letter in letters.items()}


class PrivateTokenizer(ForkSafe):
    """A copy of the caller's tokenizer, which one thread uses at a time.

    Encoding changes the settings of a fast tokenizer, and the caller may be encoding in another
    thread. The copy is made on first use, and again in a forked child, where it may be half-used.
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
