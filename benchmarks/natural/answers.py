"""The questions of the natural set, and the model's own answers to them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from attribot_rag import Document
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.model.generation import Generation
from benchmarks.experiment.data_sets import load, sample
from benchmarks.experiment.data_sets.formats import squad
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import Question, answer_question
from benchmarks.halves import SPLITS, Split
from benchmarks.labelled.row_cache import RowStore
from benchmarks.readers.claims import judged_claims

TEMPLATE = "attribot"
MAX_NEW_TOKENS = 64
SQUAD_PARAGRAPHS = 5
MAX_REFERENCES = 4
_MARK = re.compile(r"\s*\[\d+\]|</s>")


def examples_of(
    paths: Mapping[str, Path],
    split: Split,
    count: int,
    published: Container[str],
    *,
    unanswerable: bool = False,
) -> list[Example]:
    """Half of the first `count` examples of each data set whose keys are not `published`.

    The order is random, the same at every call; every second example is held out. With
    `unanswerable`, the questions of SQuAD are those that its paragraphs do not answer.
    """
    chosen: list[Example] = []
    for name, path in paths.items():
        is_other = unanswerable and name == "squad"
        examples = _unanswerable(path) if is_other else load(path, name).examples
        drawn = sample(examples, len(examples))
        unpublished = [example for example in drawn if example.key not in published][:count]
        half = unpublished[SPLITS.index(split) :: 2]
        chosen += map(_neighbouring, half) if name == "squad" else half
    return chosen


def claims_of(path: Path, split: Split, count: int) -> list[Example]:
    """The first `count` of a half's claims of one sentence that are attributable to few references.

    The response is the claim, without marks of its own such as [2].
    """
    splitter = make_splitter("sentence", "en")
    examples = []
    for claim in judged_claims(path, split):
        response = _MARK.sub("", claim.claim).strip()
        is_sentence = len(split_spans(response, splitter)) == 1
        if claim.attributable and is_sentence and len(claim.references) <= MAX_REFERENCES:
            documents = tuple(map(Document, claim.references))
            key = f"{claim.source}/{claim.id}"
            examples.append(Example(key, claim.question, documents, response=response))
    return examples[:count]


def _unanswerable(path: Path) -> list[Example]:
    """SQuAD's questions without an answer; evidence is what might be mistaken for one."""
    data = json.loads(path.read_text())
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [
                {**question, "is_impossible": False, "answers": question["plausible_answers"]}
                for question in paragraph["qas"]
                if question.get("is_impossible")
            ]
    return squad(data, str(path))


def _neighbouring(example: Example) -> Example:
    """The example with five paragraphs in a row, among them that with its answer."""
    answering = example.evidence[0].document
    last = max(0, len(example.documents) - SQUAD_PARAGRAPHS)
    starts = range(max(0, answering - SQUAD_PARAGRAPHS + 1), min(answering, last) + 1)
    start = random.Random(example.key).choice(starts)
    documents = example.documents[start : start + SQUAD_PARAGRAPHS]
    return replace(example, documents=documents, evidence=())


def kept_answer(question: Question, store: RowStore) -> Generation | None:
    """The greedy answer without its KV cache, generated only once; None if it has no tokens."""

    def generate() -> torch.Tensor:
        answered = answer_question(question)
        if answered is None:
            return torch.tensor([0.0])
        generation = answered.generation
        return torch.tensor([float(generation.unfinished), *generation.response_ids])

    unfinished, *response_ids = store.vector(("answer", question.digest), generate).int().tolist()
    if not response_ids:
        return None
    return Generation(question.prompt_ids, tuple(response_ids), unfinished=bool(unfinished))
