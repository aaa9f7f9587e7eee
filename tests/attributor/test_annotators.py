"""Annotators of real answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from attribot_rag import Attribution, Attributor, LocalModel
from attribot_rag.annotation import AnnotatedSentence, Check

DOCUMENTS = ["The ferry Kittiwake carries 84 passengers.", "The lighthouse is 38 metres high."]
PROMPT = [{"role": "user", "content": "\n\n".join([*DOCUMENTS, "Tell me about the sights."])}]
ANSWER = "The ferry Kittiwake carries 84 passengers. The lighthouse is 39 metres high."


@dataclass
class Begins:
    """Remarks on the first letter of each sentence; from the second call on, it fails."""

    calls: list[list[str]] = field(default_factory=list)
    most: int = 9

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        self.calls.append([sentence.text.strip() for sentence in sentences])
        if len(self.calls) > self.most:
            raise TimeoutError("the judge is gone")
        return [[Check(start=0, end=1, kind="letter", value="T", message="T")] for _ in sentences]


def test_each_sentence_is_given_once_and_a_failure_costs_its_checks(smollm2: LocalModel) -> None:
    plain = Attributor(smollm2, progress=False).attribute(PROMPT, ANSWER, DOCUMENTS)
    assert [[check.value for check in verdict.checks] for verdict in plain.verdicts] == [[], ["39"]]
    assert plain.to_cited_text().endswith("(38 in [2])")

    one, other = (sentence.strip() + "." for sentence in ANSWER.rstrip(".").split("."))
    annotator = Begins()
    attributor = Attributor(smollm2, annotator=annotator, progress=False)
    whole = attributor.attribute(PROMPT, ANSWER, DOCUMENTS)
    assert annotator.calls == [[one, other]]

    failing, pending = Begins(most=1), list[Attribution]()
    attributor = Attributor(smollm2, annotator=failing, progress=False)
    last = attributor.attribute(PROMPT, ANSWER, DOCUMENTS, on_sentence=pending.append)
    assert failing.calls == [[one], [other]]
    for made in (*pending, last):
        assert [len(verdict.checks) for verdict in made.verdicts] == [1, 0]
    (note,) = [note for note in last.notes if "annotator" in note]
    assert "Begins" in note and "TimeoutError: the judge is gone" in note
    for attribution in (whole, last):
        cited = [verdict.source_ids for verdict in attribution.verdicts]
        assert cited == [verdict.source_ids for verdict in plain.verdicts]
