"""An answer whose sentences are in every state that a reader can see."""

import json
from typing import Any

from attribot_rag import Document
from attribot_rag.annotation import sentences
from attribot_rag.display import answer_data
from support.attributions import handmade, supported, verdicts_of

PASSENGERS = "The ferry Kittiwake carries up to 84 passengers."
TICKET = "A single ticket costs 18 crowns for adults and 9 crowns for children."
BICYCLE = "A bicycle costs 3 crowns and is tied to the rail."
BELL, LAMP = "The bell was made by Jonas Wick.", "The lamp came from the same foundry."
DOCUMENTS = (
    Document(
        f"# Ferry\n\n## Tickets\n\nBook early. {PASSENGERS} {TICKET} {BICYCLE} Dogs travel free.",
        metadata={"title": "/data/ferry.txt"},
    ),
    Document(
        f"Getting there is easy. {PASSENGERS} Guests walk from the pier. {BELL}",
        metadata={"title": "festival.md", "page_label": "4"},
    ),
    Document(f"The museum is open on Saturdays. {LAMP}", metadata={"title": "museum.md"}),
    Document("Puffins breed on the cliffs.", metadata={"title": "wildlife.txt"}),
)
# Each sentence with its state, its verdict, and what its sources are worth to it.
SENTENCES: tuple[tuple[str, str, dict[str, Any], dict[str, float]], ...] = (
    (
        "The ferry carries up to 84 passengers.",
        "document",
        {"kind": "redundant", "source_ids": (0,), "relation": "either", "effect": 18.3},
        {PASSENGERS: 18.3},
    ),
    (
        "A ticket costs 18 crowns.",
        "document",
        {"kind": "grounded", "source_ids": (1,), "effect": 9.4, "reliance": 9.9},
        {TICKET: 9.4},
    ),
    (
        "A bicycle costs 4 crowns.",
        "check",
        {"kind": "grounded", "source_ids": (2,), "effect": 7.1, "reliance": 8.0},
        {BICYCLE: 7.1, TICKET: -1.5},
    ),
    (
        "The crossing is famous for its dolphins.",
        "own",
        {"kind": "unsupported", "reliance": 0.7},
        {TICKET: 0.5},
    ),
    ("So two adults pay 36 crowns.", "follows", {"kind": "follows", "follows": 1}, {TICKET: 3.1}),
    (
        "Bell and lamp were made by Wick.",
        "document",
        {"kind": "grounded", "source_ids": (3, 4), "relation": "together", "effect": 3.0},
        {BELL: 1.6, LAMP: 1.4},
    ),
    ("You asked for it.", "conversation", {"kind": "conversation"}, {}),
    ("It may sail at night.", "open", {"kind": "open", "reason": "scattered"}, {}),
    ("The captain is Maren", "cut", {"kind": "open", "reason": "cut"}, {}),
)
QUESTION = "How many people fit on the ferry, and what does it cost?"
ANSWER = " ".join(text for text, *_ in SENTENCES)
NUMBER = ANSWER.index("4 crowns")
CHECK = {
    "start": NUMBER,
    "end": NUMBER + 1,
    "kind": "number",
    "value": "4",
    "source_value": "3",
    "source": 0,
    "message": None,
}
REMARK = {"key": "contradicted", "text": "3 in [1]", "values": ["3"], "documents": [0]}


ATTRIBUTION = handmade(
    ANSWER,
    DOCUMENTS,
    {
        source: tuple(scores.get(source, 0.0) for *_, scores in SENTENCES)
        for source in (PASSENGERS, TICKET, BICYCLE, BELL, LAMP)
    },
    verdicts=verdicts_of(ANSWER, *(verdict for _, _, verdict, _ in SENTENCES)),
)


def receipts(**fields: Any) -> dict[str, Any]:
    """The element's data for that answer, in which one value differs from its source."""
    data: dict[str, Any] = json.loads(json.dumps(answer_data(ATTRIBUTION)))
    data["summary"]["sentences"][2]["checks"] = [CHECK]
    data["summary"]["sentences"][2]["remarks"] = [REMARK]
    return {**data, **fields}


def pending() -> dict[str, Any]:
    """The same while all but its first two sentences are being checked."""
    data = receipts()
    for later in data["summary"]["sentences"][2:]:
        later |= {"verdict": "open", "reason": "pending", "checks": [], "remarks": []}
    data["summary"]["status"] = "pending"
    return data


def citing(
    said: str, texts: list[tuple[str, str]], *cited: str | None, question: str = ""
) -> dict[str, Any]:
    """The element's data for sentences that cite a text of documents (name, text), or None."""
    documents = [Document(text, metadata={"source": name}) for name, text in texts]
    pieces = (piece.strip() for _, text in texts for piece in sentences(text))
    named = dict.fromkeys([*filter(None, cited), *pieces])
    scores = {text: [9.0 * (text == own) for own in cited] for text in named}
    verdicts: list[dict[str, Any]] = [
        {"kind": "grounded", "source_ids": ([*named].index(text),)}
        if text
        else {"kind": "unsupported"}
        for text in cited
    ]
    made = handmade(said, documents, scores, verdicts=verdicts_of(said, *verdicts))
    return answer_data(supported(made, question), question=question)
