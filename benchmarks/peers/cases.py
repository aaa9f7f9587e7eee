"""Answers to attribute: the evaluation's questions, its prompt, the model's own greedy answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attribot_rag import LanguageModel
from attribot_rag.evaluation.data_sets import load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.generation import TEMPLATES, answer_question, prepare
from attribot_rag.evaluation.setting import setting

MAX_NEW_TOKENS = 64
TEMPLATE = TEMPLATES["attribot"]

Intervals = list[list[int]]
"""Characters [start, end) of a prompt."""


@dataclass(frozen=True)
class Case:
    """An answered question, in the form in which peers read it.

    `prompt` is the text that the model saw, chat template included; `message` is the user's part of
    it, `context` the documents in that. `sources` are the places of each source in `prompt`,
    `source_texts` the sources of each document as the data set has them, None for sentences.
    `answer_digest` tells whether an evaluation scored the same answer.
    """

    key: str
    question: str
    documents: list[str]
    source_texts: list[list[str]] | None
    context: str
    message: str
    prompt: str
    answer: str
    sources: list[Intervals]
    answer_digest: str

    @cached_property
    def digest(self) -> str:
        """A digest of prompt, answer and sources."""
        shown = repr((self.prompt, self.answer, self.sources))
        return hashlib.sha256(shown.encode()).hexdigest()[:16]


def answer(example: Example, language_model: LanguageModel) -> Case | None:
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
    return Case(
        key=example.key,
        question=example.question.strip(),
        documents=[document.text for document in example.documents],
        source_texts=None if texts is None else [*map(list, texts)],
        context=message.removeprefix(before).removesuffix(after),
        message=message,
        prompt=located.prompt.text,
        answer=str(language_model.tokenizer.decode(response_ids, skip_special_tokens=True)),
        sources=[
            [[place.start, place.end] for place in source.occurrences] for source in located.sources
        ],
        answer_digest=answered.record(setting(language_model, "cpu"), 0).digest,
    )


def questions(paths: dict[str, Path], count: int) -> list[Example]:
    """The first `count` questions of each data set, as `attribot-rag evaluate` draws them."""
    drawn = [sample(load(path, name).examples, count) for name, path in paths.items()]
    return list(chain.from_iterable(zip(*drawn, strict=False)))


def answered(examples: Sequence[Example], language_model: LanguageModel, path: Path) -> list[Case]:
    """The cases of the file at `path`; what it lacks is generated and added to it."""
    rows = json.loads(path.read_text()) if path.exists() else []
    names = [option.name for option in fields(Case)]
    cases = {row["key"]: Case(**{name: row[name] for name in names}) for row in rows}
    for example in tqdm(examples, desc="answering", unit="question"):
        if example.key not in cases:
            case = answer(example, language_model)
            if case is not None:
                cases[case.key] = case
                write([*cases.values()], path)
    return [cases[example.key] for example in examples if example.key in cases]


def write(cases: Sequence[Case], path: Path) -> None:
    rows = [{**asdict(case), "digest": case.digest} for case in cases]
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1))
