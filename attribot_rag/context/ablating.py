"""The prompt without some of its text, re-tokenized around each cut only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribot_rag.context.tokens import Interval, TokenizedText
from attribot_rag.language_model import LanguageModel

_WINDOWS = (8, 32, 128)


@dataclass(frozen=True, eq=False)
class AblatedPrompt:
    """Token ids of a prompt with text removed.

    The first `num_shared` of them are those of the full prompt. `in_step` says that re-tokenizing
    the text around every cut met the tokens that were seen again on both sides; where it did not,
    whole tokens were dropped instead.
    """

    ids: tuple[int, ...]
    num_shared: int
    in_step: bool


def ablate(
    prompt: TokenizedText, removed: Sequence[Interval], language_model: LanguageModel
) -> AblatedPrompt:
    """Remove these characters (disjoint, ascending) from the prompt."""
    removed = [interval for interval in removed if interval[0] < interval[1]]
    ids: list[int] | None = None
    for window in _WINDOWS:
        ids = _retokenized(prompt, removed, window, language_model)
        if ids is not None:
            break
    in_step = ids is not None
    if ids is None:
        dropped = {index for interval in removed for index in prompt.tokens_in(interval)}
        ids = [token_id for index, token_id in enumerate(prompt.ids) if index not in dropped]
    shared = 0
    for seen, kept in zip(prompt.ids, ids, strict=False):
        if seen != kept:
            break
        shared += 1
    return AblatedPrompt(tuple(ids), shared, in_step)


@dataclass(frozen=True)
class _Cut:
    """Neighbouring removals: tokens [first, last) are touched, [left, right) are looked at."""

    removed: tuple[Interval, ...]
    left: int
    first: int
    last: int
    right: int


def _retokenized(
    prompt: TokenizedText,
    removed: Sequence[Interval],
    window: int,
    language_model: LanguageModel,
) -> list[int] | None:
    """Ids of the ablated prompt, or None if some cut does not fall in step in this window."""
    ids: list[int] = []
    done = 0
    for cut in _cuts(prompt, removed, window, language_model.boundary_ids):
        replacement = _replacement(prompt, cut, language_model)
        if replacement is None:
            return None
        ids += prompt.ids[done : cut.left]
        ids += replacement
        done = cut.right
    ids += prompt.ids[done:]
    return ids


def _cuts(
    prompt: TokenizedText,
    removed: Sequence[Interval],
    window: int,
    boundary_ids: frozenset[int],
) -> Iterator[_Cut]:
    pending: _Cut | None = None
    for interval in removed:
        touched = prompt.tokens_touching(interval)
        first, last = touched.start, max(touched.start, touched.stop)
        left = first
        while left > 0 and first - left < window and prompt.ids[left - 1] not in boundary_ids:
            left -= 1
        right = last
        while (
            right < len(prompt.ids)
            and right - last < window
            and prompt.ids[right] not in boundary_ids
        ):
            right += 1
        if pending is not None and left <= pending.right:
            pending = _Cut((*pending.removed, interval), pending.left, pending.first, last, right)
        else:
            if pending is not None:
                yield pending
            pending = _Cut((interval,), left, first, last, right)
    if pending is not None:
        yield pending


def _replacement(
    prompt: TokenizedText, cut: _Cut, language_model: LanguageModel
) -> list[int] | None:
    """Ids for the tokens [left, right) without the removed text, in step on both sides."""
    pieces = list(_kept_pieces(prompt, cut, language_model.boundary_ids))
    encoded: list[int] = []
    for piece in pieces:
        encoded += language_model.encode(piece) if isinstance(piece, str) else (piece,)
    before = prompt.ids[cut.left : cut.first]
    after = prompt.ids[cut.last : cut.right]
    if after and encoded[-1:] != [after[-1]]:
        return None
    candidates = _in_step_after(before, encoded) if before else [encoded]
    expected = "".join(
        piece if isinstance(piece, str) else language_model.decode([piece]) for piece in pieces
    )
    for candidate in candidates:
        if _text_in_place(prompt, cut, candidate, language_model) == expected:
            return candidate
    return None


def _kept_pieces(
    prompt: TokenizedText, cut: _Cut, boundary_ids: frozenset[int]
) -> Iterator[str | int]:
    """What is left between the tokens: runs of text, and special tokens by their ids."""
    run = ""
    done = 0
    for index in range(cut.left, cut.right):
        start, end = prompt.spans[index]
        kept = _without(max(start, done), end, cut.removed)
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


def _without(start: int, end: int, removed: Sequence[Interval]) -> list[Interval]:
    """The characters [start, end) less the removed intervals."""
    kept = []
    for first, last in removed:
        if first < end and last > start:
            if start < first:
                kept.append((start, first))
            start = max(start, last)
    if start < end:
        kept.append((start, end))
    return kept


def _in_step_after(before: Sequence[int], encoded: list[int]) -> list[list[int]]:
    """The encoded window with its first tokens replaced by those seen.

    A tokenizer may treat the beginning of a text apart (a dummy space before it); the first token
    or two of a window are allowed to differ until it falls in step.
    """
    candidates = []
    for seen in range(min(2, len(before))):
        for new in range(min(3, len(encoded))):
            if list(before[seen : seen + 2]) == encoded[new : new + len(before[seen : seen + 2])]:
                candidates.append([*before[:seen], *encoded[new:]])
    return candidates


def _text_in_place(
    prompt: TokenizedText, cut: _Cut, ids: Sequence[int], language_model: LanguageModel
) -> str:
    """The text of these ids when they follow what stands before the cut."""
    context = prompt.ids[max(0, cut.left - 4) : cut.left]
    before = language_model.decode(context)
    return language_model.decode([*context, *ids])[len(before) :]
