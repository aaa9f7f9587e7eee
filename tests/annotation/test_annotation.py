"""What an annotator is given, and what becomes of its checks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from support.attributions import verdicts_of
from support.scorers import scorer

from attribot_rag.annotation import AnnotatedSentence, Annotation, Annotator, Check
from attribot_rag.attribution import Verdict
from attribot_rag.context import Context

DOCUMENTS = ("The bakery opens at six. A loaf costs 7 crowns.", "The ferry has 84 seats.")
ANSWER = "A loaf costs 8 crowns [1]. So two cost 16. The ferry is old."
CITES_NOTHING = {"kind": "unsupported"}
PENDING = {"kind": "open", "reason": "pending"}


@dataclass
class Asked:
    """Remarks on the last word of each sentence, and keeps what it was asked."""

    sentences: list[AnnotatedSentence] = field(default_factory=list)
    calls: int = 0

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        self.calls += 1
        self.sentences += sentences
        return [[last_word(sentence)] for sentence in sentences]


def last_word(sentence: AnnotatedSentence) -> Check:
    word = sentence.text.split()[-1]
    start = sentence.text.rindex(word)
    return Check(
        start=start, end=start + len(word), kind="ending", value=word, message="It ends so."
    )


@pytest.fixture
def context() -> Context:
    return scorer(documents=DOCUMENTS).context


def verdicts(context: Context, *others: dict[str, Any]) -> tuple[Verdict, ...]:
    loaf = next(source.id for source in context.sources if "loaf" in source.text)
    cites = {"kind": "grounded", "source_ids": (loaf,)}
    rest = others or ({"kind": "follows", "follows": 0}, CITES_NOTHING)
    return verdicts_of(ANSWER, cites, *rest)


def test_an_annotator_reads_the_sentence_and_what_the_model_read(context: Context) -> None:
    asked = Asked()
    marker = (ANSWER.index("[1]"), ANSWER.index("[1]") + 3)
    Annotation(asked, ANSWER, context).of(verdicts(context), [marker])
    loaf, so = asked.sentences
    assert (loaf.start, loaf.end) == (0, ANSWER.index("So"))
    assert loaf.text == ANSWER[: loaf.end].replace("[1]", "   ")
    assert [(text.text.strip(), text.language) for text in loaf.cited] == [
        ("A loaf costs 7 crowns.", "en")
    ]
    assert [text.strip() for text in loaf.other_documents] == [DOCUMENTS[1]]
    (prompt,) = loaf.prompt_texts
    assert DOCUMENTS[0] in prompt and DOCUMENTS[1] not in prompt
    assert so.cited == loaf.cited
    assert so.prompt_texts == (prompt, loaf.text)


def test_checks_are_moved_to_the_response_and_nothing_else_changes(context: Context) -> None:
    before = verdicts(context)
    after = Annotation(Asked(), ANSWER, context).of(before)
    assert tuple(replace(verdict, checks=()) for verdict in after) == before
    places = [
        (check.start, check.end, check.value) for verdict in after for check in verdict.checks
    ]
    end, other = ANSWER.index("[1]."), ANSWER.index("16.")
    assert places == [(end, end + 4, "[1]."), (other, other + 3, "16.")]


def test_each_sentence_is_given_once(context: Context) -> None:
    asked = Asked()
    annotation = Annotation(asked, ANSWER, context)
    follows = {"kind": "follows", "follows": 0}
    for others in ((PENDING, PENDING), (follows, PENDING), (follows, CITES_NOTHING)):
        last = annotation.of(verdicts(context, *others))
    assert [sentence.text.split()[0] for sentence in asked.sentences] == ["A", "So"]
    assert asked.calls == 2
    assert [len(verdict.checks) for verdict in last] == [1, 1, 0]


def test_without_an_annotator_there_are_no_checks(context: Context) -> None:
    assert Annotation(None, ANSWER, context).of(verdicts(context)) == verdicts(context)


class Raises:
    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        raise TimeoutError("the judge\ndid not answer")


class GivesTooFew:
    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        return []


@dataclass
class Gives:
    check: Any

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        return [[self.check] for _ in sentences]


@dataclass
class GivesOne:
    check: Check

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> Any:
        return [self.check for _ in sentences]


CHECK = Check(start=0, end=1, kind="letter", value="A")


@pytest.mark.parametrize(
    ("annotator", "reason"),
    [
        (Raises(), "Raises failed, .*TimeoutError: the judge did not answer"),
        (GivesTooFew(), "GivesTooFew failed, .*0 lists of checks for 2 sentences"),
        (Gives("wrong"), "Gives failed, .*'wrong' is no check"),
        (GivesOne(CHECK), "GivesOne failed, .*a check instead of a list"),
        (Gives(replace(CHECK, value="zzz")), "Gives failed, .*not what stands at its positions"),
        (Gives(replace(CHECK, end=900)), "Gives failed, .*positions are characters"),
        (Gives(replace(CHECK, source=77)), "Gives failed, .*source is the id of a cited text"),
    ],
)
def test_a_failure_costs_the_checks_alone(
    annotator: Annotator, reason: str, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    annotation = Annotation(annotator, ANSWER, context)
    before = verdicts(context)
    assert annotation.of(before) == before == annotation.of(before)
    (note,) = annotation.notes
    assert re.search(reason, note)
    (record,) = caplog.records
    assert record.exc_info is not None and type(annotator).__name__ in record.getMessage()


def test_a_failure_keeps_the_checks_that_were_given(context: Context) -> None:
    @dataclass
    class FailsLater(Asked):
        def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
            if self.calls:
                raise ValueError("no more")
            return super().annotate(sentences)

    annotation = Annotation(FailsLater(), ANSWER, context)
    follows = {"kind": "follows", "follows": 0}
    annotation.of(verdicts(context, PENDING, PENDING))
    last = annotation.of(verdicts(context, follows, CITES_NOTHING))
    assert [len(verdict.checks) for verdict in last] == [1, 0, 0]
    assert "no more" in annotation.notes[0]
