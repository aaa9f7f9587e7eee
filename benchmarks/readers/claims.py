"""Claims of models' answers with their references, of which people said what supports them."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, zip_longest
from pathlib import Path

from attribot_rag.context import DocumentSpan
from benchmarks.halves import SPLITS, Split

ANSWER = "The answer is "
ANSWERED = ("SQuAD", "HotpotQA")  # data sets with answers whose place is known
_NUM_PARAGRAPHS = 8


@dataclass(frozen=True)
class Claim:
    """One sentence or more of an answer; `attributable` says whether people found it supported.

    `source` is the data set. `evidence` are the places in the references where people found the
    answer, if the data set tells.
    """

    id: str
    source: str
    question: str
    claim: str
    references: tuple[str, ...]
    attributable: bool
    evidence: tuple[DocumentSpan, ...] = ()


def judged_claims(path: Path, split: Split) -> list[Claim]:
    """A half of AttributionBench's claims: of each source and label, by id, every second.

    Sources and labels take turns.
    """
    groups: dict[tuple[str, bool], list[Claim]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        claim = Claim(**{**fields, "references": tuple(fields["references"])})
        groups[claim.source, claim.attributable].append(claim)
    first = SPLITS.index(split)
    by_id = (sorted(group, key=lambda claim: claim.id)[first::2] for group in groups.values())
    return in_turn(*by_id)


def squad_answers(path: Path, split: Split) -> list[Claim]:
    """SQuAD's own answers, "The answer is X.", of every second question.

    The references are the first eight paragraphs of the article. The evidence of a false answer is
    in none of them, but in a later paragraph, and they do not hold its words. True and false
    answers take turns.
    """
    groups: dict[bool, list[Claim]] = {True: [], False: []}
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        paragraphs = article["paragraphs"]
        shown = tuple(paragraph["context"] for paragraph in paragraphs[:_NUM_PARAGRAPHS])
        said = "\n".join(shown).casefold()
        for number, paragraph in enumerate(paragraphs):
            for question in paragraph["qas"]:
                if question.get("is_impossible"):
                    continue
                answer, start = question["answers"][0].values()
                is_shown = number < len(shown)
                if is_shown or answer.casefold() not in said:
                    place = DocumentSpan(number, start, start + len(answer))
                    claim = _answer(question["id"], "SQuAD", question["question"], answer, shown)
                    claim = replace(
                        claim, attributable=is_shown, evidence=(place,) if is_shown else ()
                    )
                    groups[is_shown].append(claim)
    drawn = (random.Random(1).sample(group, len(group)) for group in groups.values())
    return in_turn(*(group[SPLITS.index(split) :: 2] for group in drawn))


def answers_to_others(claims: Sequence[Claim]) -> list[Claim]:
    """The questions that the paragraphs answer, each with the answer to another question on them.

    Nothing supports these, though their words are in the paragraphs.
    """
    shown: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.attributable:
            shown[claim.references].append(claim)
    return [
        replace(claim, claim=other.claim, attributable=False, evidence=())
        for group in shown.values()
        for claim, other in zip(group, [*group[1:], group[0]], strict=True)
        if other.claim.casefold() != claim.claim.casefold()
    ]


def hotpotqa_answers(path: Path, split: Split) -> list[Claim]:
    """HotpotQA's own answers, "The answer is X.", of every second question.

    The references are its ten paragraphs, the evidence the supporting facts. Answers that no
    supporting fact holds, such as "yes", are left out.
    """
    claims = []
    for question in json.loads(path.read_text(encoding="utf-8")):
        answer, context = question["answer"], dict(question["context"])
        titles = [*context]
        facts = [(t, i) for t, i in question["supporting_facts"] if i < len(context[t])]
        if not any(answer in context[title][index] for title, index in facts):
            continue
        starts = {t: [0, *accumulate(map(len, context[t]))] for t, _ in facts}
        evidence = tuple(
            DocumentSpan(titles.index(t), starts[t][i], starts[t][i + 1]) for t, i in facts
        )
        paragraphs = tuple("".join(sentences) for sentences in context.values())
        claim = _answer(question["_id"], "HotpotQA", question["question"], answer, paragraphs)
        claims.append(replace(claim, evidence=evidence))
    return claims[SPLITS.index(split) :: 2]


def _answer(
    key: str, source: str, question: str, answer: str, references: tuple[str, ...]
) -> Claim:
    text = f"{ANSWER}{answer.rstrip('.')}."
    return Claim(key, source, question, text, references, attributable=True)


def in_turn(*lists: Sequence[Claim]) -> list[Claim]:
    """The first of each list, then the second of each."""
    return [claim for claim in chain.from_iterable(zip_longest(*lists)) if claim is not None]


def set_of(claim: Claim) -> str:
    """The data set from whose file it was read."""
    return claim.source if claim.source in ANSWERED else "AttributionBench"
