"""Verdicts, support and checks in words, and what they mean for a reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Literal, get_args

from typing_extensions import TypedDict

from attribot_rag.context.text import LEAST_LETTERS
from attribot_rag.result.answer_text import on_one_line
from attribot_rag.result.citations import Citations, mark_of
from attribot_rag.result.result import Basis, Provenance, Result
from attribot_rag.result.verdict import Check, Support, Verdict

# What people call the texts that the model was given: by a program, or by the command line.
THE_DOCUMENTS = "the documents"
YOUR_FILES = "your files"
# All remarks on a sentence, by the verdict, the reason why it is open, or its origin.
# The page in the browser has those on support, too, in its languages.
REMARKS_BY_LANGUAGE = json.loads(Path(__file__).with_name("remarks.json").read_text("utf-8"))
_REMARKS = REMARKS_BY_LANGUAGE["en"]
CAUSE_REMARKS = {
    **{key: words for key, words in _REMARKS.items() if isinstance(words, str)},
    "grounded": "from {texts}",
    "redundant": "from {texts}",
    "follows": "from an earlier sentence",
    "conversation": "from the conversation",
    "turn": "from the conversation",
    "unsupported": "not from {texts}",
    "open": "source unclear",
    "not_located": "source unclear: part of {texts} did not reach the model",
    "budget": "not fully checked",
    "limit": "not fully checked",
    "cut": "answer cut off",
    "pending": "still being checked",
    "sentence": "follows from sentence {number}",
    "reasoning": "follows from the model's own reasoning",
    "instructions": "from the instructions",
    "question": "from the question",
    "both": "needs both",
    "all": "needs all of these",
    "no_effect": "has no effect on it",
    "no_effects": "have no effect on it",
    "check": "a value to check",
    "says_full": "said by {texts}",
    "says_partial": "said in part",
    "says_contradicted": "said otherwise",
    "says_none": "not said",
    "nothing": "No source stands out.",
}
# The words that differ if another model read the answer: support is no cause.
READER_REMARKS = {
    **_REMARKS["reader"],
    "grounded": "supported by {texts}",
    "redundant": "supported by {texts}",
    "follows": "supported by an earlier sentence",
    "conversation": "supported by the conversation",
    "turn": "supported by the conversation",
    "unsupported": "no support found in {texts}",
    "open": "support unclear",
    "not_located": "support unclear: part of {texts} is not in the prompt",
    "reasoning": "follows from the reasoning",
    "instructions": "supported by the instructions",
    "question": "supported by the question",
    "no_effect": "does not support it",
    "no_effects": "do not support it",
    "read": "{reader} read the answer of {answered_by}: citations show what supports it, not why "
    "{answered_by} gave it.",
    "read_all": "Read by a model that did not give them: {readers}. Citations show what supports "
    "an answer.",
}
ANOTHER_MODEL = "another model"
Marked = Callable[[Sequence[int]], str]
"""Returns the numbers of documents in brackets, as people see them, or ''."""

LED = 6.0
"""The reliance on retrieved text, in nats, from which that text led to a sentence."""
_NOT_JUDGED = ("trivial", "reasoning")
_MOST_WORDS = 4
_MOST_CALLED = 36  # characters
Standing = Literal["full", "disputed", "contradicted", "partial", "none", "open", "elsewhere"]
"""What users should think of a sentence: the kind of its support, or one of three more.

- full: a retrieved document supports it;
- disputed: the cited document supports it, but another document has a different value;
- contradicted: the cited document has a different value, or the sentence has no citation and
  another document has one;
- partial: the cited or closest document may not support it;
- none: no retrieved document seems to support it;
- open: attribot-rag could not decide;
- elsewhere: it comes from the conversation, the instructions or the question."""


def words_for(key: str, texts: str = "", *, basis: Basis = "cause", **values: object) -> str:
    """The words for a key. The key of an unknown reason gives the words for open."""
    words = CAUSE_REMARKS if basis == "cause" else {**CAUSE_REMARKS, **READER_REMARKS}
    return words.get(key, words["open"]).format(texts=texts, **values)


def who_read(provenance: Provenance) -> str:
    """The line that says who read another model's answer; '' for a cause."""
    if provenance.basis == "cause":
        return ""
    answered_by = on_one_line(provenance.answered_by or ANOTHER_MODEL)
    reader = on_one_line(provenance.model_name)
    return words_for("read", basis="reader", reader=reader, answered_by=answered_by)


@dataclass(frozen=True)
class Remark:
    """A remark for people on the support of a sentence.

    `key` selects the words. They contain the `values` and the numbers of the `documents`, which are
    indices.
    """

    key: str
    words: str
    values: tuple[str, ...] = ()
    documents: tuple[int, ...] = ()

    @property
    def names_cited(self) -> bool:
        """Whether it names all cited documents, so that no number has to stand there too."""
        return self.key.startswith(("prompted", "say"))


def remark_on(
    verdict: Verdict | None,
    verdicts: Sequence[Verdict],
    num_cited: int,
    texts: str = THE_DOCUMENTS,
    basis: Basis = "cause",
) -> str:
    """The cause in words if the citations do not show it, else ''.

    `num_cited` is the number of citations. `verdicts` belong to the whole answer. Judged
    sentences are counted from 1; in JSON, these are its values. If a sentence is unsupported
    or scattered, its remark on support stands instead, if there is one.
    """
    if verdict is None:
        return ""
    if verdict.kind == "follows" and verdict.follows is not None:
        if _is_in_doubt(verdict, verdicts):
            return ""  # its remark on support says it
        origin = verdicts[verdict.follows : verdict.follows + 1]
        if any(earlier.kind == "reasoning" for earlier in origin):
            return words_for("reasoning", basis=basis)
        judged = (earlier.kind not in _NOT_JUDGED for earlier in verdicts[: verdict.follows + 1])
        return words_for("sentence", number=sum(judged))
    is_unexplained = _is_unexplained(verdict)
    if (verdict.kind == "open" and not is_unexplained) or (is_unexplained and not verdict.support):
        return words_for(verdict.reason or verdict.kind, texts, basis=basis)
    if verdict.kind == "conversation":
        part = words_for(verdict.origin or verdict.kind, texts, basis=basis)
        again = "repeated" if basis == "cause" else "also"
        return f"{again} {part}" if verdict.source_ids else part
    needs_several = verdict.relation == "together" and num_cited > 1
    return CAUSE_REMARKS["both" if num_cited == 2 else "all"] if needs_several else ""


def support_remarks(
    attribution: Result,
    verdict: Verdict | None,
    marked: Marked,
    texts: str = THE_DOCUMENTS,
    num_passages: int | None = None,
) -> tuple[Remark, ...]:
    """Remarks on what the cited text lacks or contradicts, and on values to check.

    `marked` returns the numbers of documents as people see them; if it returns '', the remark is
    left out. `num_passages` is the number of retrieved passages, by default the documents in the
    prompt.
    """
    if verdict is None:
        return ()
    support = verdict.support
    others = _other_values(attribution, verdict, marked)
    checks = (*others, *_checks(verdict, texts))
    if support is None or checks:
        return checks
    if verdict.follows is not None and _is_in_doubt(verdict, attribution.verdicts):
        earlier = attribution.verdicts[verdict.follows]
        said = brief(attribution.response[earlier.start : earlier.end])
        return (Remark("follows_in_doubt", words_for("follows_in_doubt", value=said), (said,)),)
    basis = attribution.provenance.basis
    documents = _documents_of(attribution, support.source_ids)
    mark = marked(documents)
    if documents and not mark:
        return ()
    if verdict.kind in ("grounded", "redundant") and support.kind == "partial":
        lacked = tuple(lacked_words(attribution.response, support))
        if support.verbatim and not lacked:
            return ()
        key = key_of_partial(support, len(documents), lacked)
        words = words_for(key, basis=basis, mark=mark, value=", ".join(lacked))
        return (Remark(key, words, lacked, documents),)
    if not _is_unexplained(verdict):
        return ()
    if support.kind == "full":
        return (Remark("also", words_for("also", mark=mark), (), documents),)
    if (verdict.reliance or 0.0) >= LED and basis == "cause":
        return (Remark("led", words_for("led", texts)),)
    if support.kind == "partial":
        lacked = tuple(lacked_words(attribution.response, support))
        key = "closest" if lacked else "closest_in_doubt"
        words = words_for(key, mark=mark, value=", ".join(lacked))
        return (Remark(key, words, lacked, documents),)
    located = len(attribution.documents) - len(attribution.not_located)
    number = located if num_passages is None else num_passages
    key = "none" if number > 1 else "none_of_one"
    return (Remark(key, words_for(key, value=number), (str(number),)),)


def _is_unexplained(verdict: Verdict) -> bool:
    """Whether everything was measured, and no few sources or other parts explain the sentence."""
    return verdict.kind == "unsupported" or verdict.reason == "scattered"


def _is_in_doubt(verdict: Verdict, verdicts: Sequence[Verdict]) -> bool:
    """Whether it follows from a sentence that retrieved text does not say with certainty.

    If other text has another value, that remark stands instead.
    """
    followed = None if verdict.follows is None else verdicts[verdict.follows]
    if followed is None or followed.support is None or verdict.support is None:
        return False
    return not verdict.support.rivals and not (followed.support.is_said and not followed.checks)


def key_of_partial(support: Support, num_documents: int, lacked: Sequence[str]) -> str:
    """The key of the remark on documents that lack words of a sentence, or of the question."""
    if not lacked:
        return "prompted_in_doubt"  # no word tells, the score does
    if support.verbatim:
        return "says_but" if num_documents == 1 else "say_but"
    return "prompted" if num_documents == 1 else "prompted_by_several"


def brief(text: str) -> str:
    """The first words of a sentence, to name it in a remark on another one."""
    return shorten(on_one_line(text).strip("*#->| "), _MOST_CALLED, placeholder="…")


def marked_by(citations: Citations) -> Marked:
    """A function that returns the numbers of documents in brackets, by these citations."""

    def marked(documents: Sequence[int]) -> str:
        mark = mark_of(documents, citations)
        return "" if mark is None else f"[{on_one_line(', '.join(mark.labels))}]"

    return marked


def _documents_of(attribution: Result, source_ids: Iterable[int]) -> tuple[int, ...]:
    sources = (attribution.sources[source_id] for source_id in source_ids)
    return tuple({index: None for source in sources for index in source.documents})


def _other_values(attribution: Result, verdict: Verdict, marked: Marked) -> Iterator[Remark]:
    """The values that retrieved text has in place of the sentence's, and where they stand."""
    rivals = () if verdict.support is None else verdict.support.rivals
    others: list[tuple[str, tuple[int, ...]]]
    others = [(rival.value, (rival.document,)) for rival in rivals]
    others += [
        (check.source_value, _documents_of(attribution, [check.source]))
        for check in verdict.checks
        if check.source_value is not None and check.source is not None and check.message is None
    ]
    values: dict[tuple[int, ...], dict[str, None]] = {}
    for value, documents in others:
        values.setdefault(documents, {})[on_one_line(value)] = None
    holders: dict[tuple[str, ...], dict[int, None]] = {}
    for documents, said in values.items():
        if marked(documents):
            holders.setdefault(tuple(said), {}).update(dict.fromkeys(documents))
    for each, indices in holders.items():
        words = words_for("contradicted", mark=marked([*indices]), value=", ".join(each))
        yield Remark("contradicted", words, each, tuple(indices))


def _checks(verdict: Verdict, texts: str) -> Iterator[Remark]:
    """The annotator's remarks on values that no source has in another form."""
    rivals = () if verdict.support is None else verdict.support.rivals
    told = {check.start for check in rivals}
    seen = set()
    for check in verdict.checks:
        remark = _checked(check, texts)
        is_told = check.source_value is not None or check.start in told
        if remark.words not in seen and (check.message is not None or not is_told):
            seen.add(remark.words)
            yield remark


def _checked(check: Check, texts: str) -> Remark:
    if check.message is not None:
        return Remark("message", on_one_line(check.message))
    value = on_one_line(check.value or check.kind)
    key = "in_no_document" if check.in_no_document else "not_cited"
    return Remark(key, words_for(key, texts, value=value), (value,))


def lacked_words(response: str, support: Support) -> list[str]:
    """A few words that the cited documents lack: first of the sentence, then of the question.

    A short one, such as “not”, has quotation marks: in a remark it would be read as part of that.
    """
    missing = (word for word in support.missing if not word.in_same_document)
    words = [response[word.start : word.end] for word in missing]
    each: dict[str, str] = {}
    for word in map(on_one_line, (*words, *support.missing_asked)):
        is_short = word.islower() and len(word) < LEAST_LETTERS
        each.setdefault(word.casefold(), f"“{word}”" if is_short else word)
    return list(each.values())[:_MOST_WORDS]


class Trust(TypedDict):
    """How many judged sentences have which standing, and how many passages there are."""

    sentences: int
    passages: int
    standings: dict[Standing, int]


def standing_of(
    verdict: Verdict | None, verdicts: Sequence[Verdict], remarks: Sequence[Remark]
) -> Standing | None:
    """The standing of a sentence; None if it is not judged, or its support is unknown.

    A sentence that follows from another one has the same standing, unless it has another value
    itself.
    """
    if verdict is None or verdict.kind in ("trivial", "reasoning"):
        return None
    if verdict.reason in ("cut", "pending"):
        return None
    keys = {remark.key for remark in remarks}
    support = verdict.support
    if "contradicted" in keys:
        return "disputed" if is_disputed(verdict) else "contradicted"
    if keys & {"none", "none_of_one", "led"}:
        return "none"
    if keys - {"also", "follows_in_doubt", "says_but", "say_but"}:
        return "partial"
    if verdict.kind == "open" and not (support and _is_unexplained(verdict)):
        return "open"
    if support is None:
        return None
    if support.is_said:
        return "partial" if "follows_in_doubt" in keys else "full"
    if verdict.kind == "conversation":
        return "elsewhere"
    return support.kind


def is_disputed(verdict: Verdict) -> bool:
    """Whether the cited text lacks nothing, and only other text says something else."""
    support = verdict.support
    if support is None or not verdict.source_ids or support.missing:
        return False
    differs_itself = any(rival.source in verdict.source_ids for rival in support.rivals)
    return not differs_itself and not any(check.source_value for check in verdict.checks)


def trust_in(attribution: Result, citations: Citations) -> Trust | None:
    """The standings of all sentences of an answer; None if none is known."""
    marked = marked_by(citations)
    verdicts = [sentence.verdict for sentence in citations.sentences]
    standings = [
        standing_of(each, attribution.verdicts, support_remarks(attribution, each, marked))
        for each in verdicts
    ]
    known = Counter(standing for standing in standings if standing is not None)
    if not known:
        return None
    return {
        "sentences": known.total(),
        "passages": len(attribution.documents) - len(attribution.not_located),
        "standings": {name: known[name] for name in get_args(Standing) if known[name]},
    }


def trust_line(trust: Trust | None, texts: str = THE_DOCUMENTS) -> str:
    """One line for people, or '' if nothing is known.

    For example '2 of 3 sentences are supported by your files · 1 differs from your files'.
    """
    return "" if trust is None else " · ".join(_parts(trust, texts))


def _parts(trust: Trust, texts: str) -> Iterator[str]:
    words, total, standings = REMARKS_BY_LANGUAGE["en"], trust["sentences"], trust["standings"]
    values = {"all": total, "texts": texts, "passages": trust["passages"]}
    stands = standings.get("full", 0) + standings.get("disputed", 0)
    if stands or total > 1:
        yield words["stands"][total > 1].format(n=stands, **values)
    for name, number in standings.items():
        if name != "full":
            key = "none_of_one" if name == "none" and trust["passages"] == 1 else name
            form = 0 if total == 1 else 1 if number == 1 else 2
            yield words["trust"][key][form].format(n=number, **values)
