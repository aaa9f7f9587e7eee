"""Scores as bars of text."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int) -> str:
    """A bar of at most `width` characters for a share from -1 to 1, negative ones hatched.

    Anything but 0 shows at least a little.
    """
    if share < 0:
        return "░" * max(1, round(-share * width))
    full, eighths = divmod(round(share * width * 8), 8)
    if share and not full:
        eighths = max(1, eighths)
    return ("█" * full + _EIGHTHS[eighths]).rstrip()
