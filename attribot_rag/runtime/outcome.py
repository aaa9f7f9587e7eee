"""How the attribution of one answer ended, and what of it is attached to the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attribot_rag.attribution import Attribution
from attribot_rag.attribution.serialization import SCHEMA_VERSION
from attribot_rag.attribution.summary import MAX_SUMMARY_BYTES, summarize

_MAX_MESSAGE = 1000


@dataclass(frozen=True)
class RunOutcome:
    """An attribution, or the error that took its place; never both.

    `start` is where the attributed response begins in the text that the caller was given, which
    may hold the prompt too.
    """

    attribution: Attribution | None = None
    error: BaseException | None = None
    start: int = 0

    def summary(self, max_bytes: int = MAX_SUMMARY_BYTES) -> dict[str, Any]:
        """Plain data of at most 16 KB as JSON: `to_summary`, or `status` 'error' and the reason."""
        if self.attribution is not None:
            return summarize(self.attribution, start=self.start, max_bytes=max_bytes)
        kind, message = type(self.error).__name__, str(self.error)[:_MAX_MESSAGE]
        return {
            "schema_version": SCHEMA_VERSION,
            "status": "error",
            "error": {"type": kind, "message": message},
        }
