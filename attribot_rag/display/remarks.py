"""Verdicts and checks in words, where citations do not show them."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.display.escaping import on_one_line
from attribot_rag.result import Check, Verdict

_OPEN = {
    "scattered": "not decided: no source stands out",
    "not_located": "not decided: a document was not found as a whole",
    "budget": "not decided: the budget ran out",
    "limit": "not decided within the limit of judging",
    "cut": "not decided: the answer was cut here",
    "pending": "still being checked",
}
_ORIGINS = {
    "instructions": "the instructions",
    "question": "the question",
    "turn": "the conversation",
}
_NOT_JUDGED = ("trivial", "reasoning")
# What the context is worth to an unsupported sentence, in nats. It is much where only numbers of
# the sentence are unsupported, or where the user's VerdictOptions ask for more.
_SOME_RELIANCE = 2.0
_MUCH_RELIANCE = 6.0


def remark_on(verdict: Verdict | None, verdicts: Sequence[Verdict]) -> str:
    """The verdict in words where citations do not show it, else ''.

    `verdicts` are those of the whole answer. Sentences are counted from 1, those that are judged:
    of JSON, its values.
    """
    if verdict is None:
        return ""
    if verdict.kind == "follows" and verdict.follows is not None:
        origin = verdicts[verdict.follows : verdict.follows + 1]
        if any(earlier.kind == "reasoning" for earlier in origin):
            return "follows from the model's own reasoning"
        judged = (earlier.kind not in _NOT_JUDGED for earlier in verdicts[: verdict.follows + 1])
        return f"follows from sentence {sum(judged)}"
    if verdict.kind == "open":
        return _OPEN.get(verdict.reason or "", "not decided")
    if verdict.kind == "unsupported":
        return _unsupported(verdict.reliance or 0.0)
    if verdict.kind == "conversation":
        part = _ORIGINS[verdict.origin or "turn"]
        return f"repeated from {part}" if verdict.source_ids else f"from {part}"
    if verdict.relation == "together":
        return "only together"
    return "explained in part" if verdict.in_part else ""


def check_remark(verdict: Verdict | None) -> str:
    """The checks of a sentence in words, such as 'check: 7.50, the source says 7', or ''."""
    if verdict is None or not verdict.checks:
        return ""
    return f"check: {'; '.join(dict.fromkeys(map(_compared, verdict.checks)))}"


def _compared(check: Check) -> str:
    if check.message is not None:
        return on_one_line(check.message)
    value = on_one_line(check.value)
    if check.source_value is None:
        return f"{value}, not in the cited sources"
    return f"{value}, the source says {on_one_line(check.source_value)}"


def _unsupported(reliance: float) -> str:
    if reliance < _SOME_RELIANCE:
        return "not caused by the context"
    if reliance < _MUCH_RELIANCE:
        return "hardly caused by the context"
    return "not wholly caused by the context"
