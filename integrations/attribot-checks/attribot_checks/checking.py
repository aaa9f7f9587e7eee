"""The checks of an answer's sentences, by what their verdicts cite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from attribot_checks.comparison import Comparison
from attribot_checks.names import name_check
from attribot_checks.negations import negation_check
from attribot_checks.reading import read_sentence
from attribot_rag.context import Context
from attribot_rag.context.intervals import Interval, merge, subtract
from attribot_rag.context.locating.normalised import Visible
from attribot_rag.context.splitting.splitter import language_of
from attribot_rag.result.verdict import Check, Verdict

_MOST = 10  # checks of a sentence
_LONGEST = 2_000  # characters of a sentence or a source


@dataclass(frozen=True)
class CitedText:
    """A text that a sentence cites: `source` is its id, `language` its ISO 639-1 code."""

    source: int
    text: str
    language: str


def check_sentence(
    sentence: str, cited: Sequence[CitedText], language: str, *, prompt_texts: Sequence[str] = ()
) -> tuple[Check, ...]:
    """Values of a sentence that stand in none of the texts that it cites.

    Numbers, dates and units that are written in another way are equal: in words, with other
    separators, in digits of other scripts, rounded, or in another unit. So are sums and differences
    of the sources' numbers. Characters that are not seen are not read. What is not certain is left
    out: a check means that the sentence is worth a look, no check means nothing. Texts of more than
    2,000 characters are not compared. Positions are characters of the sentence. `prompt_texts` are
    other texts that the model saw, such as the whole prompt: what stands there is not reported.
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


def _placed(check: Check, sentence: Visible, sources: Mapping[int, Visible]) -> Check:
    """The check at the characters of the texts as they are, those included that are not seen."""
    start, end = sentence.interval(check.start, check.end)
    quoted = check.source_value
    if check.source is not None and quoted is not None:
        source = sources[check.source]
        first = source.text.index(quoted)
        quoted = source.source[slice(*source.interval(first, first + len(quoted)))]
    value = sentence.source[start:end]
    return replace(check, start=start, end=end, value=value, source_value=quoted)


def with_checks(
    verdicts: Sequence[Verdict],
    response: str,
    context: Context,
    markers: Sequence[Interval] = (),
) -> tuple[Verdict, ...]:
    """The same verdicts with the checks of their sentences, at characters of the response.

    A sentence that follows from another has the other's sources. A value that stands in a document
    which the sentence does not cite is reported: the model may have confused them. What stands in
    the model's own citation `markers` is no value.
    """
    readable = _without(response, markers)
    return tuple(
        replace(verdict, checks=tuple(_checks(verdict, verdicts, readable, context)))
        for verdict in verdicts
    )


def _without(text: str, markers: Sequence[Interval]) -> str:
    """The text with white space for these characters."""
    for start, end in markers:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _checks(
    verdict: Verdict, verdicts: Sequence[Verdict], response: str, context: Context
) -> Iterator[Check]:
    origin = verdict.traced(verdicts)
    prompt_texts = [_without_other_documents(context, origin.source_ids)]
    if verdict.follows is not None:
        earlier = verdicts[verdict.follows]
        prompt_texts.append(response[earlier.start : earlier.end])
    cited = [_cited(source_id, response, context) for source_id in origin.source_ids]
    language = context.answer_language(response)
    sentence = response[verdict.start : verdict.end]
    for check in check_sentence(sentence, cited, language, prompt_texts=prompt_texts):
        yield replace(check, start=verdict.start + check.start, end=verdict.start + check.end)


def _cited(source_id: int, response: str, context: Context) -> CitedText:
    source = context.sources[source_id]
    texts = [context.documents[index].text for index in source.documents] or [source.text]
    language = context.language or language_of(texts[0], (response,))
    return CitedText(source_id, source.text, language)


def _without_other_documents(context: Context, source_ids: Sequence[int]) -> str:
    """The prompt without the documents that hold none of these sources."""
    cited = {index for source_id in source_ids for index in context.sources[source_id].documents}
    others = merge(
        (occurrence.start, occurrence.end)
        for source in context.sources
        if cited.isdisjoint(source.documents)
        for occurrence in source.occurrences
    )
    text = context.prompt.text
    return "\n".join(text[start:end] for start, end in subtract((0, len(text)), others))
