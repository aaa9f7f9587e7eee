"""The checks of an answer's sentences, by what their verdicts cite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attribot_rag.attribution.verdict import Check, Verdict
from attribot_rag.checks.sentence_check import CitedText, check_sentence
from attribot_rag.context import Context
from attribot_rag.context.splitting.splitter import language_of


def with_checks(
    verdicts: Sequence[Verdict], response: str, context: Context
) -> tuple[Verdict, ...]:
    """The same verdicts with the checks of their sentences, at characters of the response.

    A sentence that follows from another has the other's sources.
    """
    return tuple(
        replace(verdict, checks=tuple(_checks(verdict, verdicts, response, context)))
        for verdict in verdicts
    )


def _checks(
    verdict: Verdict, verdicts: Sequence[Verdict], response: str, context: Context
) -> Iterator[Check]:
    origin = verdict if verdict.follows is None else verdicts[verdict.follows]
    seen = [context.prompt.text]
    if origin is not verdict:
        seen.append(response[origin.start : origin.end])
    cited = [_cited(source_id, response, context) for source_id in origin.source_ids]
    language = context.answer_language(response)
    sentence = response[verdict.start : verdict.end]
    for check in check_sentence(sentence, cited, language, seen=seen):
        yield replace(check, start=verdict.start + check.start, end=verdict.start + check.end)


def _cited(source_id: int, response: str, context: Context) -> CitedText:
    source = context.sources[source_id]
    texts = [context.documents[index].text for index in source.documents] or [source.text]
    language = context.language or language_of(texts[0], (response,))
    return CitedText(source_id, source.text, language)
