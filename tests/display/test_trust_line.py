"""The line of trust agrees with the chips, whatever sentences an answer has."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from playwright.sync_api import Page
from support.attributions import handmade, verdicts_of

from attribot_rag.attribution import Check
from attribot_rag.display import answer_data
from attribot_rag.display.page import render_summary
from attribot_rag.result.remarks import YOUR_FILES, trust_line
from attribot_rag.result.verdict import MissingWord, Rival, Support

FERRY, LIST, GUIDE = (f"The ferry carries {number} people." for number in (84, 40, 60))
SAID = "It carries 84 people."


def sourced(kind: str = "full", **fields: Any) -> dict[str, Any]:
    """A sentence that cites the first file, with this support."""
    support: Any = {"kind": kind, "score": 0.5, "source_ids": (0,), **fields}
    return {"kind": "grounded", "source_ids": (0,), "effect": 9.0, "support": Support(**support)}


def own(kind: str = "none", reliance: float = 0.5, *sources: int) -> dict[str, Any]:
    support: Any = {"kind": kind, "source_ids": sources}
    return {"kind": "unsupported", "reliance": reliance, "support": Support(**support)}


def rival(source: int, value: str) -> Rival:
    return Rival(
        start=11,
        end=13,
        value=value,
        source=source,
        document=source,
        document_start=0,
        document_end=len(FERRY),
    )


OTHER, ANOTHER = rival(1, "40"), rival(2, "60")
LACKS = (MissingWord(start=3, end=10),)
NOWHERE = Check(start=11, end=13, kind="number", value="84", in_no_document=True)
NOT_CITED = Check(start=11, end=13, kind="number", value="84")
TALK: dict[str, Any] = {"kind": "conversation", "support": Support(kind="none")}
OPEN: dict[str, Any] = {"kind": "open", "reason": "scattered", "support": Support(kind="none")}
# The first verdict, the standing of its sentence, and the looks of the chips.
SENTENCES: list[tuple[dict[str, Any], str | None, list[str]]] = [
    (sourced(), "full", [""]),
    (sourced("partial", verbatim=True, missing_asked=("notice",)), "full", ["", "note"]),
    (sourced("contradicted", rivals=(OTHER,)), "disputed", ["", "warn"]),
    (sourced("contradicted", rivals=(OTHER, ANOTHER)), "disputed", ["", "warn"]),
    (sourced("contradicted", rivals=(rival(0, "48"),)), "contradicted", ["warn"]),
    (sourced("contradicted", rivals=(OTHER,), missing=LACKS), "contradicted", ["part", "warn"]),
    (sourced("partial", missing=LACKS), "partial", ["part"]),
    (sourced("partial"), "partial", ["part"]),
    (sourced("partial") | {"checks": (NOWHERE,)}, "partial", ["part", "warn"]),
    (sourced() | {"checks": (NOT_CITED,)}, "partial", ["part", "warn"]),
    (own(), "none", ["warn"]),
    (own(reliance=7.0), "none", ["warn"]),
    (own("full", 0.5, 1), "full", ["note"]),
    (own() | {"support": Support(kind="contradicted", rivals=(OTHER,))}, "contradicted", ["warn"]),
    (TALK, "elsewhere", ["note"]),
    (TALK | {"source_ids": (0,)}, "elsewhere", ["part", "note"]),
    (TALK | {"support": sourced()["support"], "source_ids": (0,)}, "full", ["", "note"]),
    (OPEN, "none", ["warn"]),
    (OPEN | {"reason": "budget"}, "open", ["note"]),
    ({"kind": "open", "reason": "cut"}, None, ["note"]),
    ({"kind": "trivial"}, None, []),
]
LOOKS = """data => {
    const answer = document.querySelector("attribot-answer");
    answer.data = data;
    const within = (at) => [...answer.shadowRoot.querySelectorAll(`.answer [data-at^="${at} "]`)];
    const looks = [0, 1].map((at) => within(at).map((chip) => chip.classList[1] ?? ""));
    return [answer.shadowRoot.querySelector(".trust").textContent, ...looks];
}"""


def answered(*verdicts: dict[str, Any]) -> dict[str, Any]:
    """The page's data of an answer whose sentences are alike."""
    text = " ".join([SAID] * len(verdicts))
    scores = dict.fromkeys((FERRY, LIST, GUIDE), (9.0,) * len(verdicts))
    made = handmade(text, [FERRY, LIST, GUIDE], scores, verdicts=verdicts_of(text, *verdicts))
    return answer_data(made)


def follower(support: Support) -> dict[str, Any]:
    """A sentence that follows from the first, with the support that it has from there."""
    inherited: Any = {"kind": support.kind, "verbatim": support.verbatim}
    return {"kind": "follows", "follows": 0, "support": Support(**inherited)}


def test_the_line_counts_what_the_chips_show(
    new_page: Callable[..., Page], show: Callable[[Page, str], None]
) -> None:
    page = new_page()
    show(page, render_summary(answered(sourced())))
    cases = [(first,) for first in SENTENCES] + list(product(SENTENCES, SENTENCES))
    for case in cases:
        shifted = [moved(verdict, at * (len(SAID) + 1)) for at, (verdict, _, _) in enumerate(case)]
        data = answered(*shifted)
        line, *looks = page.evaluate(LOOKS, data)
        told = [sentence["standing"] for sentence in data["summary"]["sentences"]]
        assert told == [standing for _, standing, _ in case]
        assert looks[: len(case)] == [expected for _, _, expected in case]
        trust = data["summary"]["trust"]
        assert line.lower() == trust_line(trust, YOUR_FILES).lower()
        known = Counter(filter(None, told))
        assert (trust["standings"] if trust else {}) == known
    for verdict, standing, _ in SENTENCES:
        if standing not in ("full", "partial", "none", "contradicted") or not verdict["support"]:
            continue
        data = answered(verdict, follower(verdict["support"]))
        _, _, looks = page.evaluate(LOOKS, data)
        assert data["summary"]["sentences"][1]["standing"] == standing
        assert looks == (["note"] if standing == "full" else ["part"])


def moved(verdict: dict[str, Any], by: int) -> dict[str, Any]:
    """The verdict on a sentence that begins so many characters later."""

    def later(part: Any) -> Any:
        return replace(part, start=part.start + by, end=part.end + by)

    fields = dict(verdict)
    if support := verdict.get("support"):
        rivals, missing = map(later, support.rivals), map(later, support.missing)
        fields["support"] = replace(support, rivals=tuple(rivals), missing=tuple(missing))
    return {**fields, "checks": tuple(map(later, verdict.get("checks", ())))}
