"""The prompt without some of its text, re-tokenized around each cut only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribot_rag.context.cuts import Cut, find_cuts, kept_pieces
from attribot_rag.context.tokens import Interval, TokenizedText
from attribot_rag.language_model import LanguageModel

_WINDOWS = (8, 32, 128)
_FEW_TOKENS = 4


@dataclass(frozen=True, eq=False)
class AblatedPrompt:
    """Token ids of a prompt with text removed.

    The first `num_shared` of them are those of the full prompt. `in_step` says that re-tokenizing
    the text around every cut met the tokens that were seen again on both sides; where it did not,
    whole tokens were dropped instead. Beside the prompt's ends and boundary tokens, where fewer
    than four tokens could be met, the text itself is enough.
    """

    ids: tuple[int, ...]
    num_shared: int
    in_step: bool


def ablate(
    prompt: TokenizedText, removed: Sequence[Interval], language_model: LanguageModel
) -> AblatedPrompt:
    """Remove these characters (disjoint, ascending) from the prompt."""
    removed = [interval for interval in removed if interval[0] < interval[1]]
    for window in _WINDOWS:
        ids = _retokenized(prompt, removed, window, language_model)
        if ids is not None:
            return AblatedPrompt(ids, _num_shared(prompt.ids, ids), in_step=True)
    dropped = {index for interval in removed for index in prompt.tokens_in(interval)}
    ids = tuple(token_id for index, token_id in enumerate(prompt.ids) if index not in dropped)
    return AblatedPrompt(ids, _num_shared(prompt.ids, ids), in_step=False)


def _num_shared(seen: tuple[int, ...], kept: tuple[int, ...]) -> int:
    """How many ids are the same at the beginning; compares chunks first, because it is faster."""
    shared, end = 0, min(len(seen), len(kept))
    for chunk in (4096, 64, 1):
        while shared + chunk <= end:
            if seen[shared : shared + chunk] != kept[shared : shared + chunk]:
                break
            shared += chunk
    return shared


def _retokenized(
    prompt: TokenizedText,
    removed: Sequence[Interval],
    window: int,
    language_model: LanguageModel,
) -> tuple[int, ...] | None:
    """Ids of the ablated prompt, or None if some cut does not fall in step in this window."""
    ids: list[int] = []
    done = 0
    for cut in find_cuts(prompt, removed, window, language_model.boundary_ids):
        replacement = _replacement(prompt, cut, language_model)
        if replacement is None:
            return None
        ids += prompt.ids[done : cut.left]
        ids += replacement
        done = cut.right
    return (*ids, *prompt.ids[done:])


def _replacement(
    prompt: TokenizedText, cut: Cut, language_model: LanguageModel
) -> list[int] | None:
    """Ids for the tokens [left, right) without the removed text, in step on both sides."""
    boundary_ids = language_model.boundary_ids
    context = prompt.ids[max(0, cut.left - 4) : cut.left]
    before = prompt.ids[cut.left : cut.first]
    after = prompt.ids[cut.last : cut.right]
    pieces = list(kept_pieces(prompt, cut, boundary_ids))
    encoded: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            encoded.append(piece)
        else:
            encoded += _encoded_after([*context, *encoded][-4:], piece, language_model)
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


def _in_step_after(before: Sequence[int], encoded: list[int]) -> Iterator[list[int]]:
    """The encoded window with its first tokens replaced by those seen.

    A tokenizer may treat the beginning of a text apart (a dummy space before it); the first token
    or two of a window are allowed to differ until it falls in step.
    """
    for seen in range(min(2, len(before))):
        expected = list(before[seen : seen + 2])
        for new in range(min(3, len(encoded))):
            if expected == encoded[new : new + len(expected)]:
                yield [*before[:seen], *encoded[new:]]


def _encoded_after(
    context: Sequence[int], text: str, language_model: LanguageModel
) -> tuple[int, ...]:
    """Ids of a text after these tokens, less the dummy space that a tokenizer may add to it."""
    ids = language_model.encode(text)
    if text.startswith(" ") and _text_after(context, ids, language_model) != text:
        return language_model.encode(text[1:])
    return ids


def _text_after(context: Sequence[int], ids: Sequence[int], language_model: LanguageModel) -> str:
    """The text of these ids when they follow others."""
    before = language_model.decode(context)
    return language_model.decode([*context, *ids])[len(before) :]
