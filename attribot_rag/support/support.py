"""Whether retrieved text says a sentence: the text that caused it, or any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp

from rapidfuzz.distance import OSA

from attribot_rag.context.text import Interval, blank_list_numbers, blank_out
from attribot_rag.result.verdict import MissingWord, Support, Verdict
from attribot_rag.support.rivals import MIN_WORDS, inserted_words, rivals_of
from attribot_rag.support.wording import Claim, Passage, RetrievedText, Word, Wording

_NOT_JUDGED = ("trivial", "reasoning")
_NOT_DECIDED = ("cut", "pending")
_ANOTHER_SPELLING = 0.8  # least similarity of two spellings of one word
_similarity = OSA.normalized_similarity
_LEAST_COVERED = 0.3  # share of a sentence's words, by weight, in a text that says it
_LEAST_OWN = 0.5  # share of a sentence's words that a text must have
_LEAST_WEIGHT = 0.35  # share of the most telling word's weight, for words that must stay together
_LEAST_SAID = 0.5  # share of a passage's words in a sentence that repeats it word for word
_ENDED = re.compile(r"[.!?。！？।؟][\"'”’»)\]*_]*\s*\Z")
_LABELLED = re.compile(r"\w[^\w\n]*[:|].*\w")  # a row of a table, or an item with its label

Likelihoods = Sequence[tuple[int, int, float]]
"""The tokens of a question: their characters [start, end) in it, and log-likelihoods in nats."""
QuestionScorer = Callable[[str], Likelihoods | None]
"""Returns the likelihoods of the question's tokens after a text; None if no model can tell."""
Entailed = Callable[[str, str], float]
"""Returns the probability, from 0 to 1, that a text entails a sentence."""
FULL = 0.22
"""The least score of full support."""
ENTAILED = 0.5
"""The least probability of entailment, by a classifier, at which a text says a sentence."""
UNLIKELY = -8.5
"""The log-likelihood in nats, after a text, below which a word is about something else.

A word that replaces another one is usually below it, such as "magazines" where the text says
"books". Another word for the same thing rarely is, such as "fee" for "price"."""
VERBATIM = 0.8
"""The share of all its words, by weight, at which a passage says a sentence whatever the question.
"""


def with_support(
    verdicts: Sequence[Verdict],
    response: str,
    retrieved: RetrievedText,
    *,
    question: str,
    markers: Iterable[Interval] = (),
    score_question: QuestionScorer | None = None,
    entailed: Entailed | None = None,
) -> tuple[Verdict, ...]:
    """The same verdicts, with the support of each judged sentence.

    Args:
        verdicts: The verdicts on the sentences of the response, with their checks.
        response: The answer.
        retrieved: What the model read.
        question: The question.
        markers: The model's own citation markers, which are not part of a sentence.
        score_question: Asks the model that scores. Without it, words alone decide.
        entailed: Asks a classifier about sentences whose cited text lacks some of their words.
    """
    readable = blank_out(response, markers)
    supported: list[Verdict] = []
    for verdict in verdicts:
        if verdict.kind in _NOT_JUDGED or verdict.reason in _NOT_DECIDED:
            supported.append(verdict)
            continue
        traced = verdict.traced(verdicts)
        earlier = None if verdict.follows is None else supported[verdict.follows]
        claim = Claim(
            start=verdict.start,
            text=blank_list_numbers(readable[verdict.start : verdict.end]),
            question=question,
            earlier="" if earlier is None else readable[earlier.start : earlier.end],
        )
        cited = replace(verdict, source_ids=traced.source_ids)
        support = support_of(claim, cited, retrieved, score_question, entailed)
        if earlier and earlier.support and support.kind != "contradicted":
            inherited = earlier.support
            support = replace(
                support,
                kind=inherited.kind,
                score=inherited.score,
                source_ids=inherited.source_ids,
                verbatim=inherited.verbatim,
            )
        supported.append(replace(verdict, support=support))
    return tuple(supported)


def support_of(
    claim: Claim,
    verdict: Verdict,
    retrieved: RetrievedText,
    score_question: QuestionScorer | None = None,
    entailed: Entailed | None = None,
) -> Support:
    """Compare a sentence with the sources that it cites, or else with the text that says it.

    Support is contradicted if there is a rival, or a check with another value. It is full if no
    word is missing, or if the score is high enough and the text has some of its words, unless

    - a number or a name is missing;
    - a word of the question that no text has is unlikely after the cited text;
    - the cited text is the same sentence with one other word, or without one or two of its words;
    - a passage has a value, and another one the words around it;
    - the sentence has a value, and only other retrieved text has one of its telling words.

    If only other words are missing, it is also full if the text entails the sentence.
    """
    cited = retrieved.passages_of(verdict.source_ids)
    rivals = tuple(rivals_of(claim, cited, retrieved))
    differs = bool(rivals) or any(check.source_value is not None for check in verdict.checks)
    passages, score, is_closest = _passages_for(claim, cited, retrieved)
    if not passages:
        return Support(kind="contradicted" if differs else "none", rivals=rivals)
    words = _compare(claim, passages, cited, retrieved)
    has_facts = not words.facts and not any(check.in_no_document for check in verdict.checks)
    may_be_full = not is_closest and has_facts and not words.changed
    foreign = frozenset[str]()
    if score_question is not None and may_be_full and not differs:
        foreign = _foreign_words(claim, passages, retrieved, score_question)
    in_documents = retrieved.keys_of_documents(passages)
    missing = _missing_words(claim, words, foreign, retrieved, in_documents)
    asked = words.of_question
    has_score = score >= FULL and words.covered >= _LEAST_COVERED
    is_full = may_be_full and not foreign and (has_score or not (words.missing or asked))
    if entailed is not None and has_facts and not is_full:
        text = "\n".join(passage.with_context for passage in passages)
        probability = entailed(text, claim.text)
        if probability >= ENTAILED:
            is_full, score, missing, asked = True, probability, (), ()
    return Support(
        kind="contradicted" if differs else "full" if is_full else "partial",
        score=round(score, 4),
        source_ids=tuple(dict.fromkeys(passage.source for passage in passages)),
        missing=missing,
        missing_asked=tuple(
            dict.fromkeys(x.text for x in retrieved.wording.lacking(asked, in_documents))
        ),
        rivals=rivals,
        verbatim=_has_verbatim(claim.text, passages, retrieved.wording),
    )


def _passages_for(
    claim: Claim, cited: tuple[Passage, ...], retrieved: RetrievedText
) -> tuple[tuple[Passage, ...], float, bool]:
    """The cited passages, or else those that say the sentence, and their score by words.

    If none says it, it is the closest one, and the last value is True.
    """
    if cited:
        return cited, REGRESSION.score(signals_of(claim, cited, retrieved)), False
    passages, score = best_passages(claim, retrieved)
    if passages:
        return passages, score, False
    closest = _closest(claim, retrieved)
    if closest is None:
        return (), 0.0, True
    return (closest,), REGRESSION.score(signals_of(claim, [closest], retrieved)), True


def _foreign_words(
    claim: Claim,
    passages: Sequence[Passage],
    retrieved: RetrievedText,
    score_question: QuestionScorer,
) -> frozenset[str]:
    """The keys of words that a model does not expect in the question after the passages.

    They are in the question and the sentence, but in no retrieved text. Without any, the model is
    not asked.
    """
    wording = retrieved.wording
    own = frozenset(word.key for word in wording.content(claim.text))
    nowhere = wording.lacking(wording.content(claim.question), retrieved.keys)
    repeated = [word for word in nowhere if wording.has(own, word.key)]
    if not repeated:
        return frozenset()
    tokens = score_question(" ".join(passage.text.strip() for passage in passages)) or ()

    def log_likelihood(word: Word) -> float:
        return sum(nats for start, end, nats in tokens if start < word.end and word.start < end)

    return frozenset(word.key for word in repeated if log_likelihood(word) < UNLIKELY)


@dataclass(frozen=True)
class _Comparison:
    """The words that some passages lack.

    - `missing` of the sentence, in any spelling.
    - `facts`: missing numbers and names that the question lacks too.
    - `changed`: words that replace one of a passage, are added to its quotation, or are in another
      passage than the words around them.
    - `telling`: those, and missing words with much weight.
    - `of_question`: telling words of the question.

    `covered` is the share of the sentence's words that they have, by weight.
    """

    missing: Sequence[Word]
    facts: Sequence[Word]
    changed: Sequence[Word]
    telling: Sequence[Word]
    of_question: Sequence[Word]
    covered: float


def _compare(
    claim: Claim, passages: Sequence[Passage], cited: Sequence[Passage], retrieved: RetrievedText
) -> _Comparison:
    wording = retrieved.wording
    words, question = wording.content(claim.text), wording.content(claim.question)
    known = wording.keys("\n".join([claim.earlier, *(each.with_context for each in passages)]))
    texts = "\n".join(passage.text for passage in passages)
    own = frozenset[str]().union(*(wording.keys_for(passage) for passage in passages))
    numbers = own | wording.keys(claim.earlier)
    lacked = [
        word for word in words if not wording.has(numbers if word.is_number else known, word.key)
    ]
    missing = _not_respelled(lacked, wording.content(texts))
    mixed = _mixed(claim, passages, wording)
    missing += [word for word in mixed if word not in missing]
    nowhere = wording.lacking(question, retrieved.keys)
    findable = wording.lacking(question, frozenset(word.key for word in nowhere))
    new = wording.lacking(missing, frozenset(word.key for word in findable))
    facts = [word for word in new if word.is_number or word.is_name]
    replaced = missing if _is_replaced(claim.text, missing, cited, wording) else []
    changed = [*replaced, *inserted_words(claim.text, passages, wording), *mixed]
    telling = wording.telling(missing, words)
    of_question = wording.keys(claim.question)
    has_value = any(word.is_number for word in wording.lacking(words, of_question))
    elsewhere = [word for word in telling if has_value and wording.has(retrieved.keys, word.key)]
    return _Comparison(
        missing=missing,
        facts=facts,
        changed=[*changed, *elsewhere],
        telling=[*facts, *changed, *telling],
        of_question=wording.telling(wording.lacking(findable, known), question),
        covered=wording.covered(words, known),
    )


def _mixed(claim: Claim, passages: Sequence[Passage], wording: Wording) -> list[Word]:
    """The words that the passages have, but not together with the words around them.

    The sentence is cut into as few segments as possible, from its beginning or from its end, each
    of which a passage has. A number must be in a passage that has the segment around it. A segment
    of one word only counts if it is all that its passage says.
    """
    earlier, own = wording.keys(claim.earlier), wording.keys(claim.text)
    keys = [wording.keys_for(passage) | earlier for passage in passages]
    is_whole = [wording.keys(passage.text) <= own for passage in passages]
    words = wording.words(claim.text)
    least = _LEAST_WEIGHT * max(map(wording.weight, words), default=0.0)

    def mixed_in(words: Sequence[Word]) -> list[Word]:
        segments: list[tuple[list[Word], set[int]]] = []
        numbers: list[tuple[Word, int]] = []
        for word in words:
            holders = {i for i, has in enumerate(keys) if wording.has(has, word.key)}
            if word.is_number and holders:
                numbers.append((word, max(0, len(segments) - 1)))
            elif holders and word.is_content and wording.weight(word) >= least:
                both = segments[-1][1] & holders if segments else set()
                if both:
                    segments[-1] = [*segments[-1][0], word], both
                else:
                    segments.append(([word], holders))
            elif segments and (both := segments[-1][1] & holders):
                segments[-1] = segments[-1][0], both  # a short word, such as "dog"
            elif holders and not segments and wording.is_rare_and_short(word):
                segments.append(([], holders))
        mixed = [
            word
            for words, holders in (segments if len(segments) > 1 else ())
            if len(words) == 1 and not any(is_whole[i] for i in holders)
            for word in words
        ]
        for number, index in numbers:
            near = set().union(*(holders for _, holders in segments[index : index + 2]))
            if not any(wording.has(keys[i], number.key) for i in near or range(len(keys))):
                mixed.append(number)
        return mixed

    return min(mixed_in(words), mixed_in(words[::-1]), key=len)


def _missing_words(
    claim: Claim,
    words: _Comparison,
    foreign: Collection[str],
    retrieved: RetrievedText,
    in_documents: Collection[str],
) -> tuple[MissingWord, ...]:
    """The missing words to report: those that are telling, or foreign to the text."""
    wording = retrieved.wording
    return tuple(
        MissingWord(
            start=claim.start + word.start,
            end=claim.start + word.end,
            in_no_document=not wording.has(retrieved.keys, word.key),
            in_same_document=wording.has(in_documents, word.key),
        )
        for word in sorted({*words.missing, *words.changed}, key=lambda word: word.start)
        if word in words.telling or wording.has(foreign, word.key)
    )


def _not_respelled(missing: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """The missing words without those that have another spelling, as "meters" has "metres"."""
    others = [word.text.casefold() for word in words if not (word.is_number or word.is_name)]

    def is_respelled(word: str) -> bool:
        alike = (other for other in others if other[0] == word[0])
        return any(_similarity(word, other) >= _ANOTHER_SPELLING for other in alike)

    return [
        word
        for word in missing
        if word.is_number or word.is_name or not is_respelled(word.text.casefold())
    ]


def _has_verbatim(text: str, passages: Sequence[Passage], wording: Wording) -> bool:
    """Whether each document of some passages says a sentence word for word."""
    said = wording.words(text)
    least, least_content = MIN_WORDS
    if len(said) < least and not all(is_row(text, passage, wording) for passage in passages):
        return False
    if len(wording.content(text)) < least_content or wording.begins_with_pronoun(text):
        return False
    documents = {passage.document for passage in passages}
    holders = {
        passage.document for passage in passages if _begins_with(passage.text, said, wording)
    }
    return documents == holders


def is_row(text: str, passage: Passage, wording: Wording) -> bool:
    """Whether a sentence has the same words as a row of a table, or as an item with its label."""
    words, theirs = wording.words(text), wording.words(passage.text)
    is_same = [word.key for word in words] == [word.key for word in theirs]
    return is_same and len(words) > 1 and _LABELLED.search(passage.text) is not None


def _begins_with(text: str, said: Sequence[Word], wording: Wording) -> bool:
    """Whether a sentence, or a row with its label, begins with these words and adds few others.

    The beginning has the subject and the verb. A part without them ("24 months from the day of
    purchase"), or an item of a list, takes these from the question.
    """
    theirs = wording.words(text)
    if len(said) < _LEAST_SAID * len(theirs) or not (_ENDED.search(text) or _LABELLED.search(text)):
        return False
    return [word.key for word in said] == [word.key for word in theirs[: len(said)]]


def _is_replaced(
    text: str, missing: Sequence[Word], passages: Sequence[Passage], wording: Wording
) -> bool:
    """Whether a passage is the sentence with another word in place of a missing one.

    The two words must have the same neighbour.
    """
    own = wording.keys(text)
    lost = {word.text.casefold() for word in missing}
    for passage in passages:
        theirs = wording.lacking(wording.content(passage.text), own)
        others = {word.text.casefold() for word in theirs}
        if len(lost) == len(others) == 1:
            around = _neighbours(theirs, passage.text, wording)
            return not around.isdisjoint(_neighbours(missing, text, wording))
    return False


def _neighbours(words: Sequence[Word], text: str, wording: Wording) -> set[tuple[str, str]]:
    """The keys of the words before and after these words of a text."""
    starts = {word.start for word in words}
    pairs = list(pairwise(wording.words(text)))
    before = {("before", first.key) for first, second in pairs if second.start in starts}
    return before | {("after", second.key) for first, second in pairs if first.start in starts}


def signals_of(claim: Claim, passages: Sequence[Passage], retrieved: RetrievedText) -> Signals:
    """The signals for a sentence and the passages that it cites."""
    wording = retrieved.wording
    words, asked = wording.content(claim.text), wording.content(claim.question)
    findable = [word for word in asked if wording.has(retrieved.keys, word.key)]
    cited = wording.keys("\n".join([claim.earlier, *(each.with_context for each in passages)]))
    added = wording.lacking(words, frozenset(word.key for word in asked))
    return Signals(
        added_covered=wording.covered(added, cited) if added else 0.0,
        question_covered=wording.covered(findable, cited) if findable or not asked else 0.0,
        question_repeated=wording.covered(asked, wording.keys(claim.text)),
    )


def best_passages(claim: Claim, retrieved: RetrievedText) -> tuple[tuple[Passage, ...], float]:
    """The passages that best say a sentence, by words alone, and their score.

    They have all its numbers and names, and are equally good. Empty if no passage says it.
    """
    wording = retrieved.wording
    words = wording.content(claim.text)
    facts = [word for word in words if word.is_number or word.is_name]
    best: list[Passage] = []
    most = (FULL, 0.0)
    for passage in retrieved.passages if words else ():
        known = wording.keys(passage.with_context)
        if wording.lacking(facts, known):
            continue
        # Neighbours have each other's words around them: the one with the words itself is cited.
        own = wording.covered(words, wording.keys(passage.text))
        rank = (REGRESSION.score(signals_of(claim, [passage], retrieved)), own)
        if own >= _LEAST_OWN and rank >= most:
            best = [*best, passage] if rank == most else [passage]
            most = rank
    return tuple(best), most[0]


def _closest(claim: Claim, retrieved: RetrievedText) -> Passage | None:
    """The passage that has most of a sentence's words.

    It must have all its numbers and names, or nearly all words that the question lacks.
    """
    wording = retrieved.wording
    words = wording.content(claim.text)
    new = wording.lacking(words, wording.keys(claim.question)) or words
    facts = [word for word in new if word.is_number or word.is_name]

    def covered(passage: Passage) -> float:
        return wording.covered(words, wording.keys(passage.text))

    def is_close(passage: Passage) -> bool:
        keys = wording.keys(passage.text)
        has_facts = bool(facts) and not wording.lacking(facts, keys)
        return has_facts or (bool(new) and wording.covered(new, keys) >= VERBATIM)

    return max(filter(is_close, retrieved.passages), key=covered, default=None)


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Numbers about a sentence and its cited text.

    Shares are of words, weighted by how rare they are in the retrieved text.
    """

    added_covered: float
    """The share of the sentence's new words that the cited text has. A word is new if the question
    lacks it. 0 without new words."""
    question_covered: float
    """The share of the question's words that the cited text has, among those that any retrieved
    text has. Other words may be the question's own way to put it."""
    question_repeated: float = 0.0
    """The share of the question's words that the sentence repeats."""


@dataclass(frozen=True)
class Regression:
    """A logistic regression on named signals, fitted by benchmarks.support.estimate."""

    constant: float
    weights: Mapping[str, float]

    def score(self, signals: object) -> float:
        """The probability, from 0 to 1."""
        total = self.constant + sum(
            weight * getattr(signals, name) for name, weight in self.weights.items()
        )
        return 1 / (1 + exp(-total))


REGRESSION = Regression(
    -3.745, {"added_covered": 1.942, "question_covered": 2.45, "question_repeated": 0.302}
)
"""An estimate, from 0 to 1, of how probable it is that the cited text says the sentence."""
