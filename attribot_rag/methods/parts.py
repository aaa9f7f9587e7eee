"""Parts of a response, such as its sentences, and when sources suffice for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_LEAST_LETTERS = 4


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When sources suffice for a part of the response.

    A part is looked into if its context reliance, or that of one of its content words, is at least
    `min_sought` nats. Sources suffice if it keeps `kept_share` of its reliance with them alone, and
    each of its content words keeps `kept_word` of its own, or loses no more than `min_word` nats.
    A set has at most `max_set` sources; at most two where the reliance is below twice `min_effect`,
    four below three times. A source that suffices is replaceable if the part, or a content word,
    loses less than `needed_share` of its reliance without it; another replaces it if the part keeps
    that share with it alone, and its words. Below `min_reliance` no set is sought unless a content
    word loses half of `min_word_effect` without one of the most promising sources.
    """

    min_sought: float = 2.0
    min_effect: float = 4.0
    kept_share: float = 0.7
    kept_word: float = 0.5
    min_word: float = 2.0
    needed_share: float = 0.5
    min_reliance: float = 6.0
    min_word_effect: float = 2.5
    max_set: int = 6


@dataclass(frozen=True)
class Part:
    """Response tokens, and those of each content word among them, with its text."""

    tokens: tuple[int, ...] = ()
    words: tuple[tuple[int, ...], ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Carriers:
    """Units that carry a part of the response: `members` together, or each of `others` alone.

    `members` is the smallest set that suffices, best first. Without it, each of the `others`
    suffices by itself. If there is no such set, it is not `sufficient`, and the only member is the
    unit without which the part loses most. Not `complete`: the budget ended the search.
    """

    members: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    sufficient: bool = True
    complete: bool = True


def words_in(text: str) -> list[str]:
    """The words and numbers of a text."""
    return _WORD.findall(text)


def parts_of(
    parts: Sequence[Sequence[int]],
    text: str,
    tokens_in: Callable[[int, int], Iterable[int]],
    question: str = "",
) -> list[Part]:
    """The parts with these tokens of a response, with their words.

    `tokens_in` gives the tokens of characters of the text. Content words are numbers, words of four
    letters or more, and shorter words with a capital, except a part's first word. Words of the
    `question` text tell nothing new, so they are left out of a part that has others.
    """
    repeated = {word.casefold() for word in words_in(question)}
    holders = {token: index for index, tokens in enumerate(parts) for token in tokens}
    words: list[list[tuple[tuple[int, ...], str]]] = [[] for _ in parts]
    for match in _WORD.finditer(text):
        word = match.group()
        own = tuple(i for i in tokens_in(*match.span()) if i in holders)
        if not own:
            continue
        index = holders[own[0]]
        is_name = word != word.lower() and own[0] != parts[index][0]
        if is_name or word[0].isdigit() or len(word) >= _LEAST_LETTERS:
            words[index].append((own, word.casefold()))
    new = [[word for word in of if word[1] not in repeated] or of for of in words]
    return [
        Part(tuple(tokens), tuple(own for own, _ in of), tuple(text for _, text in of))
        for tokens, of in zip(parts, new, strict=True)
    ]
