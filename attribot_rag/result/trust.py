"""How far an answer can be trusted: what each sentence is worth, and one line for the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from typing_extensions import TypedDict

from attribot_rag.result.citations import Citations
from attribot_rag.result.remarks import (
    REMARKS,
    THE_DOCUMENTS,
    Remark,
    marked_by,
    support_remarks,
)
from attribot_rag.result.result import Result
from attribot_rag.result.verdict import Verdict

Standing = Literal["said", "disputed", "differs", "partial", "none", "open", "elsewhere"]
"""What a reader may think of a sentence.

- said: retrieved text says it;
- disputed: the cited text says it, and another text says otherwise;
- differs: the cited text says another value, or only another text speaks of it, and says one;
- partial: the text that prompted it does not say it;
- none: no retrieved text says it;
- open: its source is unclear;
- elsewhere: it is from the conversation, the instructions or the question.
"""


class Trust(TypedDict):
    """How many judged sentences have which standing, among how many passages."""

    sentences: int
    passages: int
    standings: dict[Standing, int]


def standing_of(
    verdict: Verdict | None, verdicts: Sequence[Verdict], remarks: Sequence[Remark]
) -> Standing | None:
    """The standing of a sentence; None where it is not judged, or its support is not known.

    A sentence that follows from another one has the standing of that one, unless it differs itself.
    """
    if verdict is None or verdict.kind in ("trivial", "reasoning"):
        return None
    if verdict.reason in ("cut", "pending"):
        return None
    keys = {remark.key for remark in remarks}
    support = verdict.support
    if "contradicted" in keys:
        return "disputed" if _is_disputed(verdict) else "differs"
    if keys & {"none", "none_of_one", "led"}:
        return "none"
    if keys - {"also", "follows_in_doubt"}:
        return "partial"
    if verdict.kind == "open":
        return "open"
    if support is None:
        return None
    if support.kind == "full":
        return "said"
    if verdict.kind == "conversation":
        return "elsewhere"
    standing: Standing = "none" if support.kind == "none" else "partial"
    return "differs" if support.kind == "contradicted" else standing


def _is_disputed(verdict: Verdict) -> bool:
    """Whether what it cites lacks nothing, and only other text says otherwise."""
    support = verdict.support
    if support is None or not verdict.source_ids or support.missing:
        return False
    differs_itself = any(rival.source in verdict.source_ids for rival in support.rivals)
    return not differs_itself and not any(check.source_value for check in verdict.checks)


def trust_in(attribution: Result, citations: Citations) -> Trust | None:
    """The standings of all sentences of an answer; None if none is known."""
    marked = marked_by(citations)
    verdicts = [sentence.verdict for sentence in citations.sentences]
    standings = [
        standing_of(each, attribution.verdicts, support_remarks(attribution, each, marked))
        for each in verdicts
    ]
    known = Counter(standing for standing in standings if standing is not None)
    if not known:
        return None
    return {
        "sentences": known.total(),
        "passages": len(attribution.documents) - len(attribution.not_located),
        "standings": {name: known[name] for name in get_args(Standing) if known[name]},
    }


def trust_line(trust: Trust | None, texts: str = THE_DOCUMENTS) -> str:
    """One line for people; '' where nothing is known.

    For example '2 of 4 sentences stand in your files · 1 differs · 1 is not in the 3 passages
    found'.
    """
    return "" if trust is None else " · ".join(_parts(trust, texts))


def _parts(trust: Trust, texts: str) -> Iterator[str]:
    words, total, standings = REMARKS["en"], trust["sentences"], trust["standings"]
    values = {"all": total, "texts": texts, "passages": trust["passages"]}
    stands = standings.get("said", 0) + standings.get("disputed", 0)
    if stands or total > 1:
        yield words["stands"][total > 1].format(n=stands, **values)
    for name, number in standings.items():
        if name != "said":
            key = "none_of_one" if name == "none" and trust["passages"] == 1 else name
            form = 0 if total == 1 else 1 if number == 1 else 2
            yield words["trust"][key][form].format(n=number, **values)
