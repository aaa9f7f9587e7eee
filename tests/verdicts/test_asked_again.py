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
@pytest.mark.parametrize("case", CASES)
def test_a_document_that_suffices_without_the_turns_is_cited_beside_them(
    case: str, smollm2: LanguageModel
) -> None:
    question, answer, text = CASES[case]
    attribution = asked_again(smollm2, question, answer, [TRAMS, text])
    (verdict,) = attribution.verdicts
    assert (verdict.kind, verdict.relation) == ("conversation", "either")
    cited = {attribution.sources[i].occurrences[0].spans[0].document for i in verdict.source_ids}
    assert cited == {1}
    assert attribution.to_cited_text() == f"{answer} [1] (also in the conversation)"


TOGETHER = {
    "numbers": (
        "How many berths does the harbour of Velm have, and when was it built?",
        "The harbour of Velm has 412 berths and was built in 1873.",
        (
            "Velm lies on the eastern coast. The harbour of Velm has 412 berths for yachts.",
            "A guide to harbours. The harbour of Velm was built in 1873.",
        ),
    ),
    "names": (
        "Who painted the ceiling of Karsk town hall, and who carved its door?",
        "The ceiling was painted by Odile Brannoc and the door was carved by Jaro Venn.",
        (
            "Karsk town hall stands on the square. Its ceiling was painted by Odile Brannoc.",
            "The door of Karsk town hall was carved by Jaro Venn from oak.",
        ),
    ),
    "times": (
        "When does the town museum of Ostrand open and close?",
        "The town museum of Ostrand opens at eleven and closes at nine in the evening.",
        (
            "The town museum of Ostrand opens at eleven every day.",
            "The town museum of Ostrand closes at nine in the evening, except on Mondays.",
        ),
    ),
    "prices": (
        "What do a bed and a bicycle cost at Pension Orlo?",
        "At Pension Orlo a bed costs 38 crowns and a bicycle costs 14 crowns.",
        (
            "At Pension Orlo a bed costs 38 crowns a night.",
            "Guests of Pension Orlo rent a bicycle for 14 crowns.",
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TOGETHER)
def test_documents_that_suffice_together_are_cited_beside_the_turns(
    case: str, smollm2: LanguageModel
) -> None:
    question, answer, texts = TOGETHER[case]
    attribution = asked_again(smollm2, question, answer, [TRAMS, *texts])
    (verdict,) = attribution.verdicts
    assert (verdict.kind, verdict.relation) == ("conversation", "together")
    cited = {attribution.sources[i].occurrences[0].spans[0].document for i in verdict.source_ids}
    assert cited == {1, 2}
    assert attribution.to_cited_text() == f"{answer} [1] [2] (also in the conversation)"


@pytest.mark.slow
def test_a_document_that_says_otherwise_is_not_cited(smollm2: LanguageModel) -> None:
    question, answer, text = CASES["a number"]
    other = [TRAMS, text.replace("412", "63")]
    (verdict,) = asked_again(smollm2, question, answer, other).verdicts
    assert (verdict.kind, verdict.source_ids) == ("conversation", ())
