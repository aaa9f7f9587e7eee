"""The data of the element <attribot-answer>: plain values for JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import exp
from typing import Any

from attribot_rag.context.splitting.blocks import without_tags
from attribot_rag.context.splitting.splitter import language_of, make_splitter
from attribot_rag.context.text import Interval
from attribot_rag.display.markdown_tree import first_line, heading, reads_as_markdown, tree_of
from attribot_rag.display.report import begins_line, is_part, spaces_and
from attribot_rag.result import CitedSentence, Counterfactual, Result, cite
from attribot_rag.result.answer_text import AnswerMarks, segments
from attribot_rag.result.remarks import key_of_partial, lacked_words
from attribot_rag.result.summary import summarize
from attribot_rag.result.verdict import Support, Verdict
from attribot_rag.support import RetrievedText, Wording, with_support

_NOISE = 1.0  # nats; smaller scores are not shown
# The least nats of an influence, and the least share kept with only the cited sources, if known.
_INFLUENCES = {"very strong": (8.0, 0.8), "strong": (4.0, 0.5), "weak": (_NOISE, 0.0)}
_OF_ALL = (2.0, 6.0)  # nats of all texts together: below, between, above: none, weak, strong
_MILLION = 14.0  # nats
_MOST_ROWS = 8
_MOST_PLACES = 20
_FEW_LINES = 320  # characters of another answer that are shown at first
_FOR_PROGRAMMERS = re.compile(r"\w_\w|\btokens?\b")  # notes that name settings are not shown
_LEAST_REPEATED = 3  # words of a sentence that comes again where an answer loops


def answer_data(attribution: Result, *, question: str = "") -> dict[str, Any]:
    """The element's `data`: plain values for JSON.

    This is a summary of all sentences and documents, the answer and the documents' texts, and how
    they are rendered. It also has the places of the sources that matter to a sentence, their scores
    in nats, and the words in which a sentence and its sources agree or differ.
    """
    sentences = list(cite(attribution))
    evidence = [list(_rows(attribution, sentence)) for sentence in sentences]
    shown = {row["source"] for rows in evidence for row in rows}
    shown.update(source_id for sentence in sentences for source_id in sentence.named)
    language = language_of(question, [attribution.response])
    wording = Wording(language_of(attribution.response, [d.text for d in attribution.documents]))
    documents = {str(index): document for index, document in enumerate(attribution.documents)}
    rendered = {
        index: tree_of(
            document.text,
            is_markdown=reads_as_markdown(
                document.text, document.title, document.id, document.metadata.get("source")
            ),
        )
        for index, document in documents.items()
    }
    summary = summarize(attribution, max_bytes=None)
    cited = _first_cited(attribution, sentences, evidence)
    return {
        **summary_data(summary, answer=attribution.response, question=question),
        "influence": [
            _influence(
                told, sum(row["score"] for row in rows if row["source"] in told["source_ids"])
            )
            for told, rows in zip(summary["sentences"], evidence, strict=True)
        ],
        "language": language,
        "documents": {index: document.text for index, document in documents.items()},
        "rendered": rendered,
        "first_lines": {
            index: first_line(rendered[index], document.text)
            for index, document in documents.items()
        },
        "headings": {
            index: heading(rendered[index], document.text, cited[index][0]) or document.section
            if index in cited
            else document.section or heading(rendered[index], document.text)
            for index, document in documents.items()
        },
        "cited": {index: line for index, (_, line) in cited.items()},
        "quotes": {str(source_id): list(_places(attribution, source_id)) for source_id in shown},
        "compared": [_compared(attribution, sentence, wording) for sentence in sentences],
        "evidence": evidence,
    }


def summary_data(
    summary: Mapping[str, Any], *, answer: str, question: str = "", stage: str = ""
) -> dict[str, Any]:
    """The element's `data` for an answer that has only a summary, or is still being written.

    Args:
        summary: The summary that an integration attached. Without one, only its status: `{"status":
            "pending"}`.
        answer: The text so far, which is read as Markdown.
        question: The question.
        stage: 'reading' or 'writing' while the answer is incomplete.
    """
    sentences = summary.get("sentences") or []
    ends = [sentence["end"] for sentence in sentences]
    is_placed = summary.get("offsets") != "answer" and max(ends, default=0) <= len(answer)
    spans: list[Interval] = []
    if sentences and is_placed:
        spans = [(sentence["start"], sentence["end"]) for sentence in sentences]
    elif not sentences:  # keeps the places for later results
        splitter = make_splitter("sentence", language_of(question, [answer]))
        split = segments(answer, 0, len(answer), splitter, AnswerMarks())
        spans = [span for span, is_sentence in split if is_sentence]
    notes = [note for note in summary.get("notes") or () if not _FOR_PROGRAMMERS.search(note)]
    told = {**summary, "notes": notes} if "notes" in summary else dict(summary)
    data: dict[str, Any] = {"summary": told, "question": question, "answer": answer}
    is_measured = summary.get("status") != "composite"  # else on earlier answers
    if sentences and is_measured and (summary.get("unit") or "nats") == "nats":
        data["influence"] = [_influence(sentence) for sentence in sentences]
    if is_placed:
        hidden = spaces_and(answer, _hidden(summary, answer))
        data["blocks"] = tree_of(answer, _ascending(spans), removed=hidden)
    return {**data, "stage": stage} if stage else data


def without_data(
    attribution: Result, counterfactual: Counterfactual, *, question: str = ""
) -> dict[str, Any]:
    """The model's answer without some documents, and what the others say of each sentence.

    Use it for `without` in the element's data, and to answer the event `attribot-without`. No cause
    is measured: each sentence is compared with the other documents, as an answer to `question`. For
    an answer that is long, or begins to repeat itself, it also has the first lines.
    """
    text, left_out = counterfactual.response, {*counterfactual.documents}
    language = language_of(text, [document.text for document in attribution.documents])
    splitter = make_splitter("sentence", language)
    spans = [
        span
        for span, is_sentence in segments(text, 0, len(text), splitter, AnswerMarks())
        if is_sentence
    ]
    sources = [
        source for source in attribution.sources if not left_out.issuperset(source.documents)
    ]
    supported = with_support(
        [Verdict(start=start, end=end, kind="unsupported") for start, end in spans],
        text,
        RetrievedText(attribution.documents, sources, language),
        question=question,
    )
    end = _first_lines(text, spans)
    first = [(start, min(stop, end)) for start, stop in spans if start < end]
    return {
        "answer": text,
        "blocks": tree_of(text, spans),
        "short": tree_of(text[:end], first) if end < len(text.rstrip()) else None,
        "said": [
            verdict.support and _said(text, verdict.support, attribution, left_out)
            for verdict in supported
        ],
        "is_same": text.split() == attribution.response.split(),
    }


def _said(text: str, support: Support, attribution: Result, left_out: set[int]) -> dict[str, Any]:
    """What the remaining documents say of a sentence: a remark of `remarks.json`, or `says`.

    A remark has its `values`. The `documents` are only close to the sentence, unless they have all
    its content words.
    """
    rivals = [rival for rival in support.rivals if rival.document not in left_out]
    if rivals:
        document = rivals[0].document
        values = [rival.value for rival in rivals if rival.document == document]
        return {
            "key": "contradicted",
            "values": list(dict.fromkeys(values)),
            "documents": [document],
        }
    sources = (attribution.sources[source_id] for source_id in support.source_ids)
    indices = (index for source in sources for index in source.documents)
    documents = [index for index in dict.fromkeys(indices) if index not in left_out]
    if not documents:
        number = len({*range(len(attribution.documents))} - left_out - {*attribution.not_located})
        key = "none" if number > 1 else "none_of_one"
        return {"key": key, "values": [str(number)], "documents": []}
    lacked = lacked_words(text, support)
    if support.is_said and not lacked:
        return {"key": "says", "values": [], "documents": documents}
    key = key_of_partial(support, len(documents), lacked)
    return {"key": key, "values": lacked, "documents": documents}


def _first_lines(text: str, spans: Sequence[Interval]) -> int:
    """Where the first lines of an answer end: before it repeats itself, or after a few lines."""
    met: set[str] = set()
    for start, end in spans:
        words = re.findall(r"\w+", text[start:end].casefold())
        is_again = len(words) >= _LEAST_REPEATED and " ".join(words) in met
        if is_again or end > _FEW_LINES:
            cut = start if met else max(text.rfind(" ", 0, _FEW_LINES), 0) or _FEW_LINES
            return len(text[:cut].rstrip())
        met.add(" ".join(words))
    return len(text)


def _influence(sentence: Mapping[str, Any], score: float = 0.0) -> dict[str, Any]:
    """How much a sentence depends on what it cites, and on all texts together.

    It is `times` less likely without its citations, None for more than a million. `of_all` is 0 for
    almost no influence, 1 for a weak and 2 for a strong one. `score`, in nats, replaces an effect
    that was not measured.
    """
    effect, kept, reliance = sentence["effect"], sentence["kept"], sentence["reliance"]
    nats, share = score if effect is None else effect, 1.0 if kept is None else kept
    levels = (name for name, (n, k) in _INFLUENCES.items() if nats >= n and share >= k)
    times = None if effect is None or effect >= _MILLION else float(f"{exp(effect):.2g}")
    of_all = None if reliance is None else sum(reliance >= least for least in _OF_ALL)
    return {"level": next(levels, None), "times": times, "of_all": of_all}


def _compared(
    attribution: Result, sentence: CitedSentence, wording: Wording
) -> dict[str, Any] | None:
    """Where a sentence and the sources that it names agree, and where they differ.

    `same` has the words that both have: characters of the response, and of each source's place.
    `differs` has the source's other values.
    """
    verdict = sentence.verdict
    if verdict is None or verdict.support is None:
        return None
    words = wording.content(attribution.response[sentence.start : sentence.end])
    own = {word.key for word in words}
    met: set[str] = set()
    sources = {}
    for source_id in sentence.named:
        text = _read(attribution, source_id)
        theirs = [word for word in wording.content(text) if word.key in own]
        met.update(word.key for word in theirs)
        values = [rival.value for rival in verdict.support.rivals if rival.source == source_id]
        values += [
            check.source_value
            for check in verdict.checks
            if check.source_value is not None and check.source == source_id
        ]
        starts = ((text.find(value), len(value)) for value in values)
        sources[str(source_id)] = {
            "same": _joined(text, [(word.start, word.end) for word in theirs]),
            "differs": [(start, start + length) for start, length in starts if start >= 0],
        }
    same = [(word.start, word.end) for word in words if word.key in met]
    return {
        "same": [
            (sentence.start + start, sentence.start + end)
            for start, end in _joined(attribution.response[sentence.start : sentence.end], same)
        ],
        "sources": sources,
    }


def _joined(text: str, spans: Sequence[Interval]) -> list[Interval]:
    """The spans, joined if only white space separates them."""
    joined: list[Interval] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _read(attribution: Result, source_id: int) -> str:
    """The text of a source at its first place, which is quoted."""
    document, start, end, *plain = next(_places(attribution, source_id), (0, 0, 0))
    text = attribution.documents[int(document)].text[int(start) : int(end)]
    return str(plain[0]) if plain else text


def _first_cited(
    attribution: Result, sentences: Sequence[CitedSentence], evidence: Sequence[Sequence[Any]]
) -> dict[str, tuple[int, str]]:
    """By document, where the first text begins that a sentence cites of it, and its first words.

    Of several texts, the one with the highest score stands. Texts with another value come last.
    """
    ids = [
        row["source"]
        for sentence, rows in zip(sentences, evidence, strict=True)
        for row in rows
        if row["source"] in sentence.source_ids
    ]
    ids += [source_id for sentence in sentences for source_id in sentence.named]
    cited: dict[str, tuple[int, str]] = {}
    for source_id in dict.fromkeys(ids):
        for document, start, end, *plain in _places(attribution, source_id):
            text = attribution.documents[int(document)].text[int(start) : int(end)]
            shown = str(plain[0]) if plain else first_line(tree_of(text), text)
            line = re.sub(r"\s*\|\s*", " · ", shown).strip(" ·")
            cited.setdefault(str(document), (int(start), line))
    return cited


def _ascending(spans: Iterable[Interval]) -> list[Interval]:
    """The spans, without any that begins before the end of the one before it."""
    end, ascending = 0, []
    for start, stop in spans:
        start = max(start, end)
        end = max(start, stop)
        ascending.append((start, end))
    return ascending


def _hidden(summary: Mapping[str, Any], answer: str) -> Iterator[Interval]:
    """The model's own markers that are not shown, because the citations replace them.

    Markers stay if they begin a line that goes on, or are part of a link or an element.
    """
    is_composite = summary.get("status") == "composite"  # its markers mean other documents
    for sentence in summary.get("sentences") or ():
        places = groupby(sentence["markers"], key=lambda marker: (marker["start"], marker["end"]))
        for (start, end), markers in places:
            is_told = is_composite or all(
                marker["document"] is None
                or marker["supported"] is False
                or marker["document"] in sentence["documents"]
                for marker in markers
            )
            stays = is_part(answer, start, end) or begins_line(answer, start, end)
            if is_told and not stays and sentence["verdict"] != "trivial":
                yield start, end


def _rows(attribution: Result, sentence: CitedSentence) -> Iterator[dict[str, Any]]:
    """The sources above the noise with the highest scores for a sentence, and its cited ones."""
    span = (sentence.start, sentence.end)
    count = 0
    for ranking in attribution.top(len(attribution.sources), *span):
        source_id = ranking.source.id
        if attribution.unit == "nats" and abs(ranking.score) < _NOISE:
            continue
        if count < _MOST_ROWS or source_id in sentence.source_ids:
            count += 1
            yield {
                "source": source_id,
                "score": round(ranking.score, 2),
                "exact": attribution.exact[source_id],
            }


def _places(attribution: Result, source_id: int) -> Iterator[tuple[int | str, ...]]:
    """The places of a source: document, start, end, and its text if that has tags."""
    spans = (span for place in attribution.sources[source_id].occurrences for span in place.spans)
    for span in list(dict.fromkeys(spans))[:_MOST_PLACES]:
        whole = attribution.documents[span.document].text
        text = whole[span.start : span.end]
        start = span.start + len(text) - len(text.lstrip())
        place = (span.document, start, start + len(text.strip()))
        plain = without_tags(text, whole)
        yield (*place, plain) if plain != text.strip() else place
