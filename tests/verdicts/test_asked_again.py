"""A question that is asked again: the answer is in an earlier turn, and in a document."""

from collections.abc import Sequence

import pytest

from attribot_rag import Attribution, Attributor, LocalModel

TRAMS = "Trams in Ostrand run every ten minutes until midnight."
CASES = {
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
    "names of two documents": (
        "Who painted the ceiling of Karsk town hall, and who carved its door?",
        "The ceiling was painted by Odile Brannoc and the door was carved by Jaro Venn.",
        "Karsk town hall stands on the square. Its ceiling was painted by Odile Brannoc.",
        "The door of Karsk town hall was carved by Jaro Venn from oak.",
    ),
}


def asked_again(
    model: LocalModel, question: str, answer: str, documents: Sequence[str]
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
        pytest.param(case, marks=pytest.mark.long if index else ())
        for index, case in enumerate(CASES)
    ],
)
def test_documents_that_suffice_without_the_turns_are_cited_beside_them(
    case: str, smollm2: LocalModel
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
def test_a_document_that_says_otherwise_is_not_cited(smollm2: LocalModel) -> None:
    question, answer, text, *_ = CASES["a number"]
    other = [TRAMS, text.replace("412", "63")]
    (verdict,) = asked_again(smollm2, question, answer, other).verdicts
    assert (verdict.kind, verdict.source_ids) == ("conversation", ())
