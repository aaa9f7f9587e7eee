"""Verdicts and checks in words, where citations do not show them."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.display.escaping import on_one_line
from attribot_rag.result import Basis, Check, Provenance, Verdict

# What readers call the texts that the model was given: those of a program, or of the command line.
THE_DOCUMENTS = "the documents"
YOUR_FILES = "your files"
# All that readers are told of a sentence, by the verdict, the reason why it is open, or its origin.
WORDS = {
    "grounded": "from {texts}",
    "redundant": "from {texts}",
    "follows": "from an earlier sentence",
    "conversation": "from the conversation",
    "turn": "from the conversation",
    "unsupported": "not from {texts}",
    "open": "source unclear",
    "not_located": "source unclear: part of {texts} did not reach the model",
    "budget": "not fully checked",
    "limit": "not fully checked",
    "cut": "answer cut off by the length limit",
    "pending": "still being checked",
    "sentence": "follows from sentence {number}",
    "reasoning": "follows from the model's own reasoning",
    "instructions": "from the instructions",
    "question": "from the question",
    "both": "needs both",
    "all": "needs all of these",
    "differs": "{value}, but the source says {other}",
    "not_cited": "{value} is not in the source",
    "in_no_document": "{value} is in none of {texts}",
    "no_effect": "has no effect on it",
    "no_effects": "have no effect on it",
    "check": "a value to check",
    "nothing": "No source stands out.",
}
# What differs where another model read the answer: what supports it is no cause.
READER_WORDS = {
    "grounded": "supported by {texts}",
    "redundant": "supported by {texts}",
    "follows": "supported by an earlier sentence",
    "conversation": "supported by the conversation",
    "turn": "supported by the conversation",
    "unsupported": "no support found in {texts}",
    "open": "support unclear",
    "not_located": "support unclear: part of {texts} is not in the prompt",
    "reasoning": "follows from the reasoning",
    "instructions": "supported by the instructions",
    "question": "supported by the question",
    "no_effect": "does not support it",
    "no_effects": "do not support it",
    "read": "{reader} read the answer of {answered_by}: citations name what supports it, not why "
    "{answered_by} gave it.",
    "read_all": "Read by a model that did not give them: {readers}. Citations name what supports "
    "an answer.",
}
ANOTHER_MODEL = "another model"
_NOT_JUDGED = ("trivial", "reasoning")


def words_for(key: str, texts: str = "", *, basis: Basis = "cause", **values: object) -> str:
    """The words for one of these keys; a verdict that is open for another reason is just open."""
    words = WORDS if basis == "cause" else {**WORDS, **READER_WORDS}
    return words.get(key, words["open"]).format(texts=texts, **values)


def who_read(provenance: Provenance) -> str:
    """The line that says who read an answer that another model gave; '' for a cause."""
    if provenance.basis == "cause":
        return ""
    answered_by = on_one_line(provenance.answered_by or ANOTHER_MODEL)
    reader = on_one_line(provenance.model_name)
    return words_for("read", basis="reader", reader=reader, answered_by=answered_by)


def remark_on(
    verdict: Verdict | None,
    verdicts: Sequence[Verdict],
    num_cited: int,
    texts: str = THE_DOCUMENTS,
    basis: Basis = "cause",
) -> str:
    """The verdict in words where its citations, `num_cited` of them, do not show it, else ''.

    `verdicts` are those of the whole answer. Sentences are counted from 1, those that are judged:
    of JSON, its values.
    """
    if verdict is None:
        return ""
    if verdict.kind == "follows" and verdict.follows is not None:
        origin = verdicts[verdict.follows : verdict.follows + 1]
        if any(earlier.kind == "reasoning" for earlier in origin):
            return words_for("reasoning", basis=basis)
        judged = (earlier.kind not in _NOT_JUDGED for earlier in verdicts[: verdict.follows + 1])
        return words_for("sentence", number=sum(judged))
    if verdict.kind in ("open", "unsupported"):
        return words_for(verdict.reason or verdict.kind, texts, basis=basis)
    if verdict.kind == "conversation":
        part = words_for(verdict.origin or verdict.kind, texts, basis=basis)
        again = "repeated" if basis == "cause" else "also"
        return f"{again} {part}" if verdict.source_ids else part
    needs_several = verdict.relation == "together" and num_cited > 1
    return WORDS["both" if num_cited == 2 else "all"] if needs_several else ""


def check_remark(verdict: Verdict | None, texts: str = THE_DOCUMENTS) -> str:
    """The checks of a sentence in words, such as '7.50, but the source says 7', or ''."""
    checks = () if verdict is None else verdict.checks
    return "; ".join(dict.fromkeys(compared(check, texts) for check in checks))


def compared(check: Check, texts: str) -> str:
    """A check in words."""
    if check.message is not None:
        return on_one_line(check.message)
    absent = "in_no_document" if check.in_no_document else "not_cited"
    key = absent if check.source_value is None else "differs"
    value, other = on_one_line(check.value or check.kind), on_one_line(check.source_value or "")
    return words_for(key, texts, value=value, other=other)
