"""What locating has done so far, and whether it is still in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class Work:
    """Counts the `pairs` of characters that were compared to align texts.

    `is_in_time` is asked before each text; texts for which there was no time are `left`.
    """

    def __init__(self, is_in_time: Callable[[], bool] | None = None) -> None:
        self._is_in_time = is_in_time or (lambda: True)
        self.pairs = 0
        self.left: set[str] = set()

    def compare(self, text: str, other: str) -> None:
        """Count a comparison of all characters of two texts."""
        self.pairs += len(text) * len(other)

    def in_time(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, as long as there is time; the others are left."""
        for text in texts:
            if self.left or not self._is_in_time():
                self.left.add(text)
            else:
                yield text

    def rest_in_time(self, texts: Iterable[str]) -> Iterator[str]:
        """The same for a last step: all texts if others were left before."""
        return iter(texts) if self.left else self.in_time(texts)
