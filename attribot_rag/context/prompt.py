"""The text of token ids, and a prompt without some of its text.

Only a window of tokens around a cut is encoded again. Of the tokens a b|c d x x e f|g without the
x, this is the text of c d e f. The new ids must be in step with the prompt's own ids. On the right,
they must end with f, as before g. On the left, d must stand as in the prompt; then c can replace a
token that a tokenizer adds at the beginning of a text. Otherwise, a wider window is tried.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from attribot_rag.cached_property import cached_property
from attribot_rag.context.alignment import places_in
from attribot_rag.context.text import Interval, shared_length, subtract
from attribot_rag.model.language_model import LanguageModel

# Enough tokens for a character of four bytes, however its bytes are aligned.
_TAILS = range(8, 12)
_MAX_TAILS = 1_024


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """Token ids, their decoded text, and the characters [start, end) of each token.

    Spans are in order and cover the text. Tokens that only together make a character (such as the
    bytes of an emoji) share a span.
    """

    ids: tuple[int, ...]
    text: str
    spans: tuple[Interval, ...]
    boundaries: tuple[Interval, ...] = ()
    """The spans of the tokens that a chat template puts between messages."""

    @classmethod
    def of(
        cls, ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool = False
    ) -> TokenizedText:
        """Decode the ids token by token. This works for any tokenizer, and never encodes."""
        text = ""
        spans: list[Interval] = []
        for piece, num_tokens in _decoded(
            ids, language_model, skip_special_tokens=skip_special_tokens
        ):
            spans += [(len(text), len(text) + len(piece))] * num_tokens
            text += piece
        ends = language_model.boundary_ids
        boundaries = (span for span, each in zip(spans, ids, strict=True) if each in ends)
        return cls(tuple(ids), text, tuple(spans), tuple(boundaries))

    @cached_property
    def anchors(self) -> tuple[int, ...]:
        """For each token the character that decides to which source it belongs."""
        return token_anchors(self.spans, self.text)

    def tokens_in(self, interval: Interval) -> range:
        """Indices of the tokens that belong to these characters, by their anchors."""
        start, end = interval
        return range(bisect_left(self.anchors, start), bisect_left(self.anchors, end))

    def tokens_touching(self, interval: Interval) -> range:
        """Indices of the tokens that have a character in the interval."""
        start, end = interval
        first = bisect_right(self.spans, start, key=itemgetter(1))
        return range(first, bisect_left(self.spans, end, key=itemgetter(0)))

    def aligned(self, shown: str | None) -> tuple[str, tuple[Interval, ...]]:
        """The response as its reader saw it, and the characters [start, end) of each token in it.

        `shown` may differ a little from the decoded text. None stands for the decoded text without
        the white space around it.
        """
        text = self.text.strip() if shown is None else shown
        start = self.text.find(text.strip())
        if start >= 0:
            start -= len(text) - len(text.lstrip())
            places = [min(max(index - start, 0), len(text)) for index in range(len(self.text) + 1)]
        else:
            places = places_in(text, self.text)
        return text, tuple((places[first], places[last]) for first, last in self.spans)


def token_anchors(spans: Sequence[Interval], text: str) -> tuple[int, ...]:
    """For each token its first character that is not white space, or its start if all are.

    `spans` are the tokens' characters [start, end) of the text.
    """
    anchors = []
    for start, end in spans:
        anchor = end - len(text[start:end].lstrip())
        anchors.append(anchor if anchor < end else start)
    return tuple(anchors)


def _decoded(
    ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool
) -> Iterable[tuple[str, int]]:
    """Consecutive pieces of the decoded text, each with its number of tokens."""
    streamed = language_model.stream(ids, skip_special_tokens=skip_special_tokens)
    if streamed is None or any(
        piece is None and _must_end(ids, index + 1, language_model)
        for index, piece in enumerate(streamed)
    ):
        return decoded_in_windows(ids, language_model, skip_special_tokens=skip_special_tokens)
    completed = [piece for piece in streamed if piece is not None]
    ends = [0, *(index for index, piece in enumerate(streamed, 1) if piece is not None)]
    return zip(completed, (end - start for start, end in pairwise(ends)), strict=True)


def decoded_in_windows(
    ids: Sequence[int], language_model: LanguageModel, *, skip_special_tokens: bool
) -> Iterator[tuple[str, int]]:
    """Consecutive pieces of the decoded text, each with its number of tokens, for any tokenizer.

    Each window has the tokens of the piece before, because some tokenizers treat a first token
    differently. While a text is incomplete, its last tokens are decoded first. So the time is
    linear even for a text of replacement characters.
    """

    def decode(start: int, end: int) -> str:
        return language_model.decode(ids[start:end], skip_special_tokens=skip_special_tokens)

    @lru_cache(_MAX_TAILS)
    def is_incomplete(tail: tuple[int, ...]) -> bool:
        return _is_incomplete(language_model.decode(tail, skip_special_tokens=skip_special_tokens))

    window, done, before = 0, 0, ""
    for end in range(1, len(ids) + 1):
        forced = _must_end(ids, end, language_model)
        if (
            not forced
            and end - done > max(_TAILS)
            and all(is_incomplete(tuple(ids[end - length : end])) for length in _TAILS)
        ):
            continue
        decoded = decode(window, end)
        if not forced and (len(decoded) <= len(before) or _is_incomplete(decoded)):
            continue
        yield decoded[len(before) :], end - done
        window, done = done, end
        before = decode(window, done)


def _must_end(ids: Sequence[int], end: int, language_model: LanguageModel) -> bool:
    """Whether a piece of text cannot continue after the first `end` tokens."""
    return end == len(ids) or ids[end] in language_model.boundary_ids


def _is_incomplete(text: str) -> bool:
    """Whether a text may end with the first bytes of a character, or has no other text."""
    return text[-1:] in ("", "\ufffd")


_WINDOWS = (8, 32, 128)
_FEW_TOKENS = 4
_CONTEXT = 4  # tokens before a text that are decoded with it
_MOST_OWN = 2  # tokens of the prompt that may replace the first ones of a window
_MOST_ENCODED = 3  # tokens of an encoded window that may be replaced


@dataclass(frozen=True)
class Ablation:
    """What is removed: sources by id, and other characters [start, end) of the decoded prompt.

    `kept_response` are the tokens of the response that stay, ascending. With None, all stay.
    """

    source_ids: frozenset[int] = frozenset()
    characters: tuple[Interval, ...] = ()
    kept_response: tuple[int, ...] | None = None

    @classmethod
    def of(cls, *source_ids: int) -> Ablation:
        return cls(frozenset(source_ids))

    def __or__(self, other: Ablation) -> Ablation:
        """Both together. `kept_response` is this one's, or else the other's."""
        kept = other.kept_response if self.kept_response is None else self.kept_response
        return Ablation(
            self.source_ids | other.source_ids, self.characters + other.characters, kept
        )

    def __str__(self) -> str:
        parts = [f"sources {sorted(self.source_ids)}"] if self.source_ids else []
        parts += [f"characters {start} to {end} of the prompt" for start, end in self.characters]
        if self.kept_response is not None:
            parts.append(f"response tokens other than {list(self.kept_response)}")
        return " and ".join(parts) or "nothing"


@dataclass(frozen=True, eq=False)
class AblatedPrompt:
    """Token ids of a prompt with text removed.

    The first `num_shared` ids are the full prompt's. `in_step` says that encoding around
    every cut arrived at the full prompt's own tokens on both sides. Otherwise, whole tokens were
    dropped. Near the prompt's ends and boundary tokens, with fewer than four tokens to compare,
    equal text is enough.
    """

    ids: tuple[int, ...]
    num_shared: int
    in_step: bool


def ablate(
    prompt: TokenizedText, removed: Sequence[Interval], language_model: LanguageModel
) -> AblatedPrompt:
    """Remove these characters, disjoint and ascending, from the prompt."""
    removed = [interval for interval in removed if interval[0] < interval[1]]
    for window in _WINDOWS:
        ids = _retokenized(prompt, removed, window, language_model)
        if ids is not None:
            return AblatedPrompt(ids, shared_length(prompt.ids, ids), in_step=True)
    dropped = {index for interval in removed for index in prompt.tokens_in(interval)}
    ids = tuple(token_id for index, token_id in enumerate(prompt.ids) if index not in dropped)
    return AblatedPrompt(ids, shared_length(prompt.ids, ids), in_step=False)


@dataclass(frozen=True)
class _Cut:
    """Neighbouring removals. They touch the tokens [start, stop) of the window [left, right)."""

    removed: tuple[Interval, ...]
    left: int
    start: int
    stop: int
    right: int


def _retokenized(
    prompt: TokenizedText, removed: Sequence[Interval], window: int, language_model: LanguageModel
) -> tuple[int, ...] | None:
    """Ids of the ablated prompt; None if a cut is not in step within this window."""
    ids: list[int] = []
    done = 0
    for cut in _find_cuts(prompt, removed, window, language_model.boundary_ids):
        replacement = _replacement(prompt, cut, language_model)
        if replacement is None:
            return None
        ids += prompt.ids[done : cut.left]
        ids += replacement
        done = cut.right
    return (*ids, *prompt.ids[done:])


def _find_cuts(
    prompt: TokenizedText, removed: Sequence[Interval], window: int, boundary_ids: frozenset[int]
) -> list[_Cut]:
    """The removals (disjoint, ascending), joined if their windows meet.

    A window extends `window` tokens to both sides: fewer at a boundary token, more if its end would
    split the tokens of one character.
    """
    cuts: list[_Cut] = []
    for interval in removed:
        touched = prompt.tokens_touching(interval)
        start, stop = touched.start, max(touched.start, touched.stop)
        left, right = start, stop
        while left > 0 and prompt.ids[left - 1] not in boundary_ids:
            if start - left >= window and prompt.spans[left - 1] != prompt.spans[left]:
                break
            left -= 1
        while right < len(prompt.ids) and prompt.ids[right] not in boundary_ids:
            if right - stop >= window and prompt.spans[right] != prompt.spans[right - 1]:
                break
            right += 1
        if cuts and left <= cuts[-1].right:
            joined = cuts.pop()
            intervals = (*joined.removed, interval)
            cuts.append(_Cut(intervals, joined.left, joined.start, stop, right))
        else:
            cuts.append(_Cut((interval,), left, start, stop, right))
    return cuts


def _replacement(
    prompt: TokenizedText, cut: _Cut, language_model: LanguageModel
) -> list[int] | None:
    """Ids for the window's tokens without the removed text, in step on both sides, or None."""
    boundary_ids = language_model.boundary_ids
    context = prompt.ids[max(0, cut.left - _CONTEXT) : cut.left]
    before = prompt.ids[cut.left : cut.start]
    after = prompt.ids[cut.stop : cut.right]
    pieces = list(_remaining_pieces(prompt, cut, boundary_ids))
    encoded: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            encoded.append(piece)
        else:
            encoded += _encoded_after([*context, *encoded][-_CONTEXT:], piece, language_model)
    right_border = cut.right == len(prompt.ids) or prompt.ids[cut.right] in boundary_ids
    if encoded[-1:] != list(after[-1:]) and not (right_border and len(after) < _FEW_TOKENS):
        return None
    left_border = cut.left == 0 or prompt.ids[cut.left - 1] in boundary_ids
    candidates = list(_in_step_after(before, encoded))
    if left_border and len(before) < _FEW_TOKENS:
        candidates.append(encoded)
    expected = "".join(
        piece if isinstance(piece, str) else language_model.decode([piece]) for piece in pieces
    )
    for candidate in candidates:
        if _text_after(context, candidate, language_model) == expected:
            return candidate
    return None


def _remaining_pieces(
    prompt: TokenizedText, cut: _Cut, boundary_ids: frozenset[int]
) -> Iterator[str | int]:
    """The window without the removed text: texts, and boundary tokens by their ids."""
    run = ""
    done = 0
    for index in _not_inside(prompt, cut):
        start, end = prompt.spans[index]
        kept = [(max(start, done), end)]
        if any(first < end and start < last for first, last in cut.removed):
            kept = subtract(kept[0], cut.removed)
        text = "".join(prompt.text[a:b] for a, b in kept)
        done = max(done, end)
        if prompt.ids[index] in boundary_ids and text == prompt.text[start:end]:
            if run:
                yield run
            run = ""
            yield prompt.ids[index]
        else:
            run += text
    if run:
        yield run


def _not_inside(prompt: TokenizedText, cut: _Cut) -> Iterator[int]:
    """Indices of the window's tokens, without those inside the removed text."""
    spans, first = prompt.spans, cut.left
    for start, end in cut.removed:
        inside = max(first, bisect_left(spans, start, key=itemgetter(0)))
        yield from range(first, inside)
        first = max(inside, bisect_right(spans, end, key=itemgetter(1)))
        yield from (index for index in range(inside, first) if spans[index][0] == spans[index][1])
    yield from range(first, cut.right)


def _in_step_after(before: Sequence[int], encoded: list[int]) -> Iterator[list[int]]:
    """The encoded window with its first tokens replaced by the prompt's own.

    A tokenizer may treat the beginning of a text differently (a dummy space before it). So the
    first token or two of a window may differ.
    """
    for num_own in range(min(_MOST_OWN, len(before))):
        expected = list(before[num_own : num_own + 2])
        for num_encoded in range(min(_MOST_ENCODED, len(encoded))):
            if expected == encoded[num_encoded : num_encoded + len(expected)]:
                yield [*before[:num_own], *encoded[num_encoded:]]


def _encoded_after(
    context: Sequence[int], text: str, language_model: LanguageModel
) -> tuple[int, ...]:
    """Ids of a text after these tokens, without the dummy space that a tokenizer may add."""
    ids = language_model.encode(text)
    if text.startswith(" ") and _text_after(context, ids, language_model) != text:
        return language_model.encode(text[1:])
    return ids


def _text_after(context: Sequence[int], ids: Sequence[int], language_model: LanguageModel) -> str:
    before = language_model.decode(context)
    return language_model.decode([*context, *ids])[len(before) :]
