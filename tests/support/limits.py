"""Options of verdicts by other limits than a user may set."""

from typing import Any

from attribot_rag import VerdictOptions
from attribot_rag.methods.limits import Limits


def with_limits(limits: Limits, **options: Any) -> VerdictOptions:
    class Limited(VerdictOptions):
        def limits(self, *, is_reader: bool = False) -> Limits:
            return limits

    return Limited(**options)
