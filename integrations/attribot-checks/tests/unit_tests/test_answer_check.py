"""The checks of whole answers, beside verdicts that they do not change."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest
from support.attributions import verdicts_of
from support.scorers import scorer

from attribot_checks import ValueChecks
from attribot_rag import Attributor, Document, LocalModel
from attribot_rag.annotation import Annotation
from attribot_rag.attribution import Check, Verdict
from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.context import Context
from attribot_rag.result.summary import summarize

DOCUMENTS = ("The bakery opens at six. A loaf costs 7 crowns there.", "The ferry has 84 seats.")
ANSWER = "A loaf costs 7.50 crowns there. So two loaves cost 7.50 crowns. The ferry has 90 seats."


def checked_by(
    verdicts: Sequence[Verdict],
    answer: str,
    context: Context,
    markers: Sequence[tuple[int, int]] = (),
) -> tuple[Verdict, ...]:
    return Annotation(ValueChecks(), answer, context).of(verdicts, markers)


def verdicts(source: int) -> tuple[Verdict, ...]:
    """One sentence cites, one follows from it, one cites nothing."""
    cites = {"kind": "grounded", "source_ids": (source,)}
    return verdicts_of(ANSWER, cites, {"kind": "follows", "follows": 0}, {"kind": "unsupported"})


def test_each_sentence_is_compared_with_its_cited_sources() -> None:
    context = scorer(documents=DOCUMENTS).context
    loaf = next(source.id for source in context.sources if "loaf" in source.text)
    unchecked = verdicts(loaf)
    checked = checked_by(unchecked, ANSWER, context)
    assert tuple(replace(verdict, checks=()) for verdict in checked) == unchecked
    expected = Check(start=13, end=17, kind="number", value="7.50", source_value="7", source=loaf)
    assert checked[0].checks == (expected,)
    assert ANSWER[13:17] == "7.50"
    # The second sentence has the number of the first, which is reported there.
    assert [len(verdict.checks) for verdict in checked] == [1, 0, 0]


@pytest.mark.parametrize(
    ("cited", "other", "sentence", "value"),
    [
        ("Refunds take ten days.", "Parcels take five days.", "Refunds take five days.", "five"),
        ("The hut has 18 beds.", "The inn has 40 beds.", "The hut has 40 beds.", "40"),
        ("A coat weighs 2 kg.", "A tent weighs 9 kg.", "A coat weighs 9 kg.", "9"),
    ],
)
def test_a_value_of_another_document_is_reported(
    cited: str, other: str, sentence: str, value: str
) -> None:
    verdict = Verdict(start=0, end=len(sentence), kind="grounded", source_ids=(0,))
    (checked,) = checked_by([verdict], sentence, scorer(documents=(cited, other)).context)
    assert [check.value for check in checked.checks] == [value]
    whole = scorer(documents=(f"{cited} {other}",)).context  # the cited document has both
    assert checked_by([verdict], sentence, whole)[0].checks == ()


@pytest.mark.parametrize(
    "marker", ["[Beleg 31]", "(Source 31, p. 45)", "【31†L45】", "[^31]", "[31, Kap. 45]", "[A-31]"]
)
def test_what_a_marker_says_is_no_value(marker: str) -> None:
    sentence = f"The hut has 40 beds {marker}."
    context = scorer(documents=("The hut has 18 beds.",)).context
    verdict = Verdict(start=0, end=len(sentence), kind="grounded", source_ids=(0,))
    start = sentence.index(marker)
    spans = [(start, start + len(marker))]
    (checked,) = checked_by([verdict], sentence, context, spans)
    plain = sentence.replace(f" {marker}", "")
    (expected,) = checked_by([verdict], plain, context)
    assert [check.value for check in checked.checks] == [check.value for check in expected.checks]
    assert [sentence[check.start : check.end] for check in checked.checks] == ["40"]


def test_the_real_model_s_answer_and_its_summary(smollm2: LocalModel) -> None:
    attributor = Attributor(
        smollm2.model, smollm2.tokenizer, annotator=ValueChecks(), progress=False
    )
    prompt = rag_prompt("What does a loaf cost?", [*map(Document, DOCUMENTS)], chat=True)
    answer = "A loaf costs 7.50 crowns at the bakery."
    attribution = attributor.attribute(prompt, answer, DOCUMENTS)
    (sentence,) = summarize(attribution)["sentences"]
    assert sentence["verdict"] == "grounded"
    source = next(source.id for source in attribution.sources if "loaf" in source.text)
    assert source in sentence["source_ids"]
    check = Check(start=13, end=17, kind="number", value="7.50", source_value="7", source=source)
    assert sentence["checks"] == [asdict(check)]
    assert attribution.to_cited_text().endswith("] (7 in [1])")
