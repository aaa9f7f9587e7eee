"""Answers that were made of earlier answers."""

from typing import Any

from attribot_rag import Attribution, Document
from attribot_rag.runtime import Answer, AttributedRun
from support.attributions import handmade

HIGH, WHITE = "The tower is 38 metres high.", "It is white."
CARRIES = "The ferry carries 84 passengers."
TOWER = Document(f"Guide. {HIGH} {WHITE}", "tower", {"title": "Tower"})
FERRY = Document(f"Guide. {CARRIES}", "ferry")
ABOUT_TOWER = handmade(
    f" {HIGH} {WHITE}", [TOWER, FERRY], {HIGH: (9.0, 0.0), WHITE: (0.0, 8.0), CARRIES: (0.0, 0.0)}
)
ABOUT_FERRY = handmade(CARRIES, [FERRY, TOWER], {CARRIES: (9.0,), HIGH: (0.0,)})
BOTH = "The tower is high, the ferry is large. Both are white."


def composed(*scores: tuple[float, ...], **fields: Any) -> Attribution:
    """Of two sentences, with scores for the three sentences of the earlier answers."""
    earlier = [Document(f"{HIGH} {WHITE}", "a"), Document(CARRIES, "b")]
    return handmade(BOTH, earlier, dict(zip((HIGH, WHITE, CARRIES), scores, strict=True)), **fields)


def run(run_id: str, attribution: Attribution, **fields: Any) -> AttributedRun:
    answer = Answer(attribution.response, question="Why?")
    return AttributedRun(run_id, run_id, answer, attribution, **fields)


EARLIER = {"a": ABOUT_TOWER, "b": ABOUT_FERRY}
EARLIER_RUNS = (run("a", ABOUT_TOWER), run("b", ABOUT_FERRY))
OF_BOTH = composed((9.0, 0.0), (0.0, 7.0), (8.0, 0.0))
"""It cites both answers, and the first one again."""
