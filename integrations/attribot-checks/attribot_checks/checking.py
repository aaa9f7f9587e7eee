"""The annotator that compares the values of sentences, and the checks of one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from attribot_checks.comparison import Comparison
from attribot_checks.reading import read_sentence
from attribot_checks.wording import name_check, negation_check
from attribot_rag.annotation import AnnotatedSentence, Check, CitedText, NumbersInDocuments, Visible

_MOST = 10  # checks of a sentence
_LONGEST = 2_000  # characters of a sentence or a source


@dataclass(frozen=True)
class ValueChecks:
    """An annotator that finds values of an answer that are missing from its cited texts.

        Attributor(model, annotator=ValueChecks())

    Its kinds of checks are number, date, unit, address, negation and name; see `check_sentence`. A
    value is also reported if only a document that the sentence does not cite contains it, because
    the model may have mixed the documents up.
    """

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[tuple[Check, ...]]:
        checks = (
            check_sentence(own.text, own.cited, own.language, prompt_texts=own.prompt_texts)
            for own in sentences
        )
        absent = NumbersInDocuments().annotate(sentences)
        return [
            tuple(_marked(check, missing) for check in told)
            for told, missing in zip(checks, absent, strict=True)
        ]


def check_sentence(
    sentence: str, cited: Sequence[CitedText], language: str, *, prompt_texts: Sequence[str] = ()
) -> tuple[Check, ...]:
    """Returns the values of a sentence that none of its cited texts contains.

    Numbers, dates and units are equal if they are only written in another way: in words, with other
    separators, in digits of other scripts, rounded, or in another unit. Sums and differences of the
    sources' numbers count too. Invisible characters are ignored. Uncertain cases cause no check. So
    a check means that a sentence is worth a look, but a sentence without a check may be wrong.
    Texts of more than 2,000 characters are not compared. Positions are characters of the sentence.

    Args:
        sentence: A sentence of the answer.
        cited: The texts that it cites.
        language: Their ISO 639-1 code.
        prompt_texts: Other texts that the model saw, such as the whole prompt. Values in these are
            not reported.
    """
    if not cited or max(len(sentence), *(len(text.text) for text in cited)) > _LONGEST:
        return ()
    shown = Visible.of(sentence)
    texts = {text.source: Visible.of(text.text) for text in cited}
    sources = {text.source: read_sentence(texts[text.source].text, text.language) for text in cited}
    seen = tuple(Visible.of(text).text for text in prompt_texts)
    comparison = Comparison(read_sentence(shown.text, language), sources, seen)
    alike = {text.source: texts[text.source].text for text in cited if text.language == language}
    checks = chain(
        comparison.checks(),
        negation_check(shown.text, alike, language),
        name_check(shown.text, alike, seen, language),
    )
    placed = (_placed(check, shown, texts) for check in islice(checks, _MOST))
    return tuple(sorted(placed, key=lambda check: check.start))


def _marked(check: Check, missing: Sequence[Check]) -> Check:
    """The check. It says whether its value has a number that all documents lack (`missing`)."""
    overlaps = any(check.start < other.end and other.start < check.end for other in missing)
    return replace(check, in_no_document=check.source_value is None and overlaps)


def _placed(check: Check, sentence: Visible, sources: Mapping[int, Visible]) -> Check:
    """The check at the characters of the original texts, with their invisible characters."""
    start, end = sentence.interval(check.start, check.end)
    quoted = check.source_value
    if check.source is not None and quoted is not None:
        source = sources[check.source]
        first = source.text.index(quoted)
        quoted = source.source[slice(*source.interval(first, first + len(quoted)))]
    value = sentence.source[start:end]
    return replace(check, start=start, end=end, value=value, source_value=quoted)
