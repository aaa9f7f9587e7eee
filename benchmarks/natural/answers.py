"""The questions of the natural set, and the embedded model's own answers to them."""

from __future__ import annotations

import json
import random
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path

from attribot_rag.evaluation.data_sets import load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.generation import GeneratedAnswer, Question, answer_question
from attribot_rag.model.generation import Generation
from benchmarks.labelled.cases import SPLITS, Split

TEMPLATE = "attribot"
MAX_NEW_TOKENS = 64
SQUAD_PARAGRAPHS = 5


def examples_of(
    paths: Mapping[str, Path], split: Split, count: int, published: Container[str]
) -> list[Example]:
    """Half of the first `count` examples of each data set whose keys are not `published`.

    The order is random, the same at every call; every second example is held out.
    """
    chosen: list[Example] = []
    for name, path in paths.items():
        examples = load(path, name).examples
        drawn = sample(examples, len(examples))
        left = [example for example in drawn if example.key not in published][:count]
        half = left[SPLITS.index(split) :: 2]
        chosen += map(_neighbouring, half) if name == "squad" else half
    return chosen


def _neighbouring(example: Example) -> Example:
    """The example with five paragraphs in a row, among them that with its answer."""
    answering = example.evidence[0].document
    last = max(0, len(example.documents) - SQUAD_PARAGRAPHS)
    starts = range(max(0, answering - SQUAD_PARAGRAPHS + 1), min(answering, last) + 1)
    start = random.Random(example.key).choice(starts)
    documents = example.documents[start : start + SQUAD_PARAGRAPHS]
    return replace(example, documents=documents, evidence=())


class AnswerStore:
    """Greedy answers in a file of JSON lines; what it lacks is generated and added to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        records = (json.loads(line) for line in lines if line.endswith("}"))
        self._records = {record["question"]: record for record in records}

    def get(self, question: Question) -> GeneratedAnswer | None:
        """The answer without its KV cache, None if it has no tokens."""
        if question.digest not in self._records:
            self._add(question)
        record = self._records[question.digest]
        if not record["response_ids"]:
            return None
        response_ids, unfinished = tuple(record["response_ids"]), record["unfinished"]
        generation = Generation(question.prompt_ids, response_ids, unfinished=unfinished)
        return GeneratedAnswer(question, generation, seconds=None)

    def _add(self, question: Question) -> None:
        answered = answer_question(question)
        record = {
            "question": question.digest,
            "response_ids": [] if answered is None else answered.generation.response_ids,
            "unfinished": answered is not None and answered.generation.unfinished,
        }
        self._records[question.digest] = record
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")
