"""Answers to attribute: the evaluation's questions, its prompt, the model's own greedy answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attribot_rag import LocalModel
from benchmarks.experiment.data_sets import load, sample
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import TEMPLATES, answer_question, prepare
from benchmarks.peers.runners.runner import Case

MAX_NEW_TOKENS = 64
TEMPLATE = TEMPLATES["attribot"]


def questions(paths: dict[str, Path], count: int) -> list[Example]:
    """The first `count` questions of each data set, as `benchmarks.experiment` draws them."""
    drawn = [sample(load(path, name).examples, count) for name, path in paths.items()]
    return list(chain.from_iterable(zip(*drawn, strict=False)))


def answered(examples: Sequence[Example], language_model: LocalModel, path: Path) -> list[Case]:
    """The cases of the examples, which are also in the file at `path`.

    What it has already is taken from it. A question whose answer has no tokens is left out.
    """
    earlier = {case["key"]: case for case in json.loads(path.read_text())} if path.exists() else {}
    cases = []
    for example in tqdm(examples, desc="answering", unit="question"):
        case = earlier.get(example.key) or answer(example, language_model)
        if case is not None:
            cases.append(case)
            path.write_text(json.dumps(cases, ensure_ascii=False, indent=1))
    return cases


def answer(example: Example, language_model: LocalModel) -> Case | None:
    """Let the model answer; None if the answer has no tokens."""
    question = prepare(example, language_model, "attribot", MAX_NEW_TOKENS)
    answered = answer_question(question)
    if answered is None:
        return None
    located = question.prompt_input.context
    messages: Any = question.prompt_input.prompt
    message = messages[0]["content"]
    before, after = TEMPLATE.split("{context}")
    after = after.format(question=example.question.strip())
    texts = example.source_texts
    response_ids = list(answered.generation.response_ids)
    prompt = located.prompt.text
    response = str(language_model.tokenizer.decode(response_ids, skip_special_tokens=True))
    sources = [
        [[place.start, place.end] for place in source.occurrences] for source in located.sources
    ]
    return {
        "key": example.key,
        "question": example.question.strip(),
        "documents": [document.text for document in example.documents],
        "source_texts": None if texts is None else [*map(list, texts)],
        "context": message.removeprefix(before).removesuffix(after),
        "message": message,
        "prompt": prompt,
        "answer": response,
        "sources": sources,
        "digest": hashlib.sha256(repr((prompt, response, sources)).encode()).hexdigest()[:16],
    }
