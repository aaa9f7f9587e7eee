"""Words that are the same but for their endings."""

from __future__ import annotations

from rapidfuzz.distance import Prefix

_LEAST_SHARE = 0.7
_LEAST_PREFIX = 3
UNSPACED = "\u3040"  # from here on, words have no spaces between them


def same_word(first: str, second: str) -> bool:
    """Whether two words in lower case differ at most by an ending, as in 'include' and 'includes'.

    Of scripts without spaces, the first characters are compared.
    """
    if first == second:
        return True
    if not (first and second):
        return False
    if first[0] >= UNSPACED or second[0] >= UNSPACED:
        return first[0] == second[0]
    prefix = Prefix.similarity(first, second)
    return prefix >= _LEAST_PREFIX and prefix >= _LEAST_SHARE * max(len(first), len(second))
