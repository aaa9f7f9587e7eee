"""Questions with documents from HotpotQA's and SQuAD 2.0's public JSON files, and answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attribot_rag import ContextOptions, Document, LanguageModel
from attribot_rag.context import Context, TokenizedText, locate_context
from attribot_rag.prompting import rag_prompt
from attribot_rag.recording import Generation, generate_answer

SEED = 0
PARAGRAPHS = 4
MAX_NEW_TOKENS = 64


@dataclass(frozen=True)
class Example:
    """A question with its context; `key` names it in the data set.

    `answers` are the annotators'. `evidence` are texts that hold the answer by the annotators'
    marks: sentences in HotpotQA, whole answers in SQuAD.
    """

    key: str
    question: str
    documents: tuple[Document, ...]
    answers: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class GeneratedAnswer:
    """The model's own greedy answer to an example, and the located context."""

    generation: Generation
    context: Context


def answer(example: Example, language_model: LanguageModel) -> GeneratedAnswer | None:
    """Let the model answer; None if the answer has no tokens."""
    is_chat = bool(language_model.tokenizer.chat_template)
    prompt = rag_prompt(example.question, example.documents, is_chat)
    prompt_ids = language_model.encode_prompt(prompt)
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=MAX_NEW_TOKENS)
    if generation is None:
        return None
    tokens = TokenizedText.of(prompt_ids, language_model)
    return GeneratedAnswer(generation, locate_context(tokens, example.documents, ContextOptions()))


def hotpotqa(path: Path, count: int) -> list[Example]:
    """The file's first questions, each with ten titled paragraphs."""
    return [
        Example(
            key=f"hotpotqa/{one['_id']}",
            question=one["question"],
            documents=tuple(
                Document(f"{title}: {''.join(sentences).strip()}", id=title)
                for title, sentences in one["context"]
            ),
            answers=(one["answer"],),
            evidence=tuple(_supporting_facts(one)),
        )
        for one in json.loads(path.read_text())[:count]
    ]


def _supporting_facts(one: dict[str, Any]) -> Iterator[str]:
    context = dict(one["context"])
    for title, index in one["supporting_facts"]:
        if index < len(context.get(title, ())):
            yield context[title][index].strip()


def squad_with_placebos(path: Path, count: int, num_placebos: int = 2) -> list[Example]:
    """Questions on four paragraphs with placebos among them: paragraphs of the next article.

    The ids of placebos begin with "placebo".
    """
    articles = json.loads(path.read_text())["data"]
    chooser = random.Random(f"{SEED} placebo")
    found = []
    for index, paragraph, question in chooser.sample(_asked(articles), count):
        example = _squad_example(articles, index, paragraph, question, "squad-placebo", chooser)
        other = articles[(index + 1) % len(articles)]["paragraphs"]
        documents = list(example.documents)
        for held in chooser.sample(other, num_placebos):
            placebo = Document(held["context"].strip(), id=f"placebo {other.index(held)}")
            documents.insert(chooser.randrange(len(documents) + 1), placebo)
        found.append(replace(example, documents=tuple(documents)))
    return found


def squad_irrelevant(path: Path, count: int) -> list[Example]:
    """Questions with four paragraphs of the next article, which do not answer them."""
    articles = json.loads(path.read_text())["data"]
    chooser = random.Random(f"{SEED} irrelevant")
    found = []
    for index, paragraph, question in chooser.sample(_asked(articles), count):
        example = _squad_example(articles, index, paragraph, question, "squad-irrelevant", chooser)
        other = articles[(index + 1) % len(articles)]["paragraphs"]
        drawn = chooser.sample(other, PARAGRAPHS)
        documents = tuple(Document(held["context"].strip()) for held in drawn)
        found.append(replace(example, documents=documents, evidence=()))
    return found


def _asked(articles: list[Any]) -> list[tuple[int, int, dict[str, Any]]]:
    return [
        (index, paragraph, question)
        for index, article in enumerate(articles)
        for paragraph, held in enumerate(article["paragraphs"])
        for question in held["qas"]
        if not question["is_impossible"]
    ]


def _squad_example(
    articles: list[Any],
    index: int,
    paragraph: int,
    question: dict[str, Any],
    data_set: str,
    chooser: random.Random,
) -> Example:
    """An example of consecutive paragraphs of the same article."""
    article = articles[index]
    last = len(article["paragraphs"]) - PARAGRAPHS
    nearest = range(max(0, paragraph - PARAGRAPHS + 1), min(paragraph, last) + 1)
    start = chooser.choice(nearest)
    answers = tuple(dict.fromkeys(answer["text"] for answer in question["answers"]))
    return Example(
        key=f"{data_set}/{question['id']}",
        question=question["question"],
        documents=tuple(
            Document(held["context"].strip(), id=f"{article['title']} {number}")
            for number, held in enumerate(
                article["paragraphs"][start : start + PARAGRAPHS], start=start
            )
        ),
        answers=answers,
        evidence=answers,
    )
