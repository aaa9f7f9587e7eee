"""A question that is asked again: the answer stands in an earlier turn, and in a document."""

from collections.abc import Sequence

import pytest

from attribot_rag import Attribution, Attributor, LanguageModel

TRAMS = "Trams in Ostrand run every ten minutes until midnight."
CASES = {
    "a time": (
        "When does the town museum of Ostrand close?",
        "The town museum of Ostrand closes at nine in the evening.",
        "The town museum of Ostrand closes at nine in the evening, except on Mondays.",
    ),
    "a number": (
        "How many berths does the harbour of Velm have?",
        "The harbour of Velm has 412 berths.",
        "Velm lies on the eastern coast. The harbour of Velm has 412 berths for yachts.",
    ),
    "a name": (
        "Who painted the ceiling of Karsk town hall?",
        "The ceiling was painted by Odile Brannoc.",
        "Karsk town hall stands on the square. Its ceiling was painted by Odile Brannoc.",
    ),
    "numbers of two documents": (
        "How many berths does the harbour of Velm have, and when was it built?",
        "The harbour of Velm has 412 berths and was built in 1873.",
        "Velm lies on the eastern coast. The harbour of Velm has 412 berths for yachts.",
        "A guide to harbours. The harbour of Velm was built in 1873.",
    ),
    "names of two documents": (
        "Who painted the ceiling of Karsk town hall, and who carved its door?",
        "The ceiling was painted by Odile Brannoc and the door was carved by Jaro Venn.",
        "Karsk town hall stands on the square. Its ceiling was painted by Odile Brannoc.",
        "The door of Karsk town hall was carved by Jaro Venn from oak.",
    ),
    "times of two documents": (
        "When does the town museum of Ostrand open and close?",
        "The town museum of Ostrand opens at eleven and closes at nine in the evening.",
        "The town museum of Ostrand opens at eleven every day.",
        "The town museum of Ostrand closes at nine in the evening, except on Mondays.",
    ),
    "prices of two documents": (
        "What do a bed and a bicycle cost at Pension Orlo?",
        "At Pension Orlo a bed costs 38 crowns and a bicycle costs 14 crowns.",
        "At Pension Orlo a bed costs 38 crowns a night.",
        "Guests of Pension Orlo rent a bicycle for 14 crowns.",
    ),
}


def asked_again(
    model: LanguageModel, question: str, answer: str, documents: Sequence[str]
) -> Attribution:
    context = "\n\n".join(documents)
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": f"Context:\n\n{context}\n\nQuestion: {question}"},
    ]
    return Attributor(model, progress=False).attribute(messages, answer, documents)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.long if index % 3 else ())
        for index, case in enumerate(CASES)
    ],
)
def test_documents_that_suffice_without_the_turns_are_cited_beside_them(
    case: str, smollm2: LanguageModel
) -> None:
    """A document alone, or two together."""
    question, answer, *texts = CASES[case]
    attribution = asked_again(smollm2, question, answer, [TRAMS, *texts])
    (verdict,) = attribution.verdicts
    relation = "together" if len(texts) > 1 else "either"
    assert (verdict.kind, verdict.relation) == ("conversation", relation)
    cited = {attribution.sources[i].occurrences[0].spans[0].document for i in verdict.source_ids}
    assert cited == {*range(1, len(texts) + 1)}
    markers = " ".join(f"[{number}]" for number in sorted(cited))
    assert attribution.to_cited_text() == f"{answer} {markers} (repeated from the conversation)"


@pytest.mark.slow
def test_a_document_that_says_otherwise_is_not_cited(smollm2: LanguageModel) -> None:
    question, answer, text, *_ = CASES["a number"]
    other = [TRAMS, text.replace("412", "63")]
    (verdict,) = asked_again(smollm2, question, answer, other).verdicts
    assert (verdict.kind, verdict.source_ids) == ("conversation", ())
