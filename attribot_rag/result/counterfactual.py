"""The model's answer to the same prompt without some of the documents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Counterfactual:
    """The answer without some documents, and the first answer's loss there.

    Only these documents were taken out of the prompt: another document that says the same stays.
    """

    documents: tuple[int, ...]
    """Indices of the documents that were taken out."""
    response: str
    """What the model answers without them; '' if it ends at once."""
    score: float
    """How much less likely the first answer is without them, in nats: log p(first answer | full
    prompt) - log p(first answer | prompt without them)."""
    exact: bool
    """Whether their text was removed to the character."""
    notes: tuple[str, ...] = ()
    """Why the two answers may differ for another reason than these documents."""
