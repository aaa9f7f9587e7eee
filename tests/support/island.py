"""Facts about an island, as the documents of the integrations' tests."""

QUESTION = "How high is the lighthouse?"
FERRY = "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns."
LIGHTHOUSE = "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844."
OTHERS = {
    "museum": "The museum was founded in 1974 by Elspeth Morrow. It opens at ten.",
    "bakery": "The bakery belongs to Hector Lowrie. It sells rye bread on Fridays.",
    "chapel": "The chapel has a bell from 1802. It is open on Sundays only.",
}
HIGH, UNKNOWN = "The lighthouse is 38 metres high.", "I do not know."


def answer_from(prompt: str) -> str:
    """What a hosted model says to the question."""
    return HIGH if LIGHTHOUSE in prompt else UNKNOWN
