"""A log of a model's answers to a data set's questions, for a batch.

    python -m benchmarks.answers squad_v2_dev.json --count 200 --output answers.jsonl
    python -m benchmarks.answers squad_v2_dev.json --documents 2 --tokens 16 --output short.jsonl
    python -m benchmarks.answers squad_v2_dev.json --documents 2 --annotated --output given.jsonl

Each question is answered greedily from the passage that holds its answer and the next ones of the
data set's, with the prompt of `attribot-rag ask`. A record is as docs/batch.md has it, the response
as token ids, cut after `--tokens` of them. With `--annotated` the response is the data set's own
answer, and no model is asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attribot_rag import Document, LanguageModel, load_model
from attribot_rag.attributor.prompting import rag_prompt
from attribot_rag.evaluation.data_sets import FORMATS, load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.recording.generating import generate_answer
from attribot_rag.scoring.session import progress_bar


def record(
    example: Example, language_model: LanguageModel | None, num_documents: int, num_tokens: int
) -> dict[str, Any]:
    """A question with the model's answer, which may have no tokens, or without a model its own."""
    first = example.evidence[0].document if example.evidence else 0
    documents = [*example.documents[first:], *example.documents[:first]][:num_documents]
    return {
        "id": example.key,
        "question": example.question,
        "documents": [{"id": one.id, "text": one.text} for one in documents],
        "response": annotated(example)
        if language_model is None
        else generated(language_model, example.question, documents, num_tokens),
    }


def annotated(example: Example) -> str:
    span = example.evidence[0]
    return example.documents[span.document].text[span.start : span.end]


def generated(
    language_model: LanguageModel, question: str, documents: list[Document], num_tokens: int
) -> list[int]:
    prompt_ids = language_model.encode_prompt(rag_prompt(question, documents, chat=True))
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=num_tokens)
    return [] if generation is None else list(generation.response_ids)


def records(
    examples: list[Example],
    language_model: LanguageModel | None,
    num_documents: int,
    num_tokens: int,
) -> Iterator[dict[str, Any]]:
    with progress_bar(shown=True, doing="answering", unit="question") as progress:
        progress.expect(len(examples))
        for example in examples:
            yield record(example, language_model, num_documents, num_tokens)
            progress.advance(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--format", choices=sorted(FORMATS), default="squad")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--documents", type=int, default=3, help="for each question")
    parser.add_argument("--tokens", type=int, default=48, help="of an answer, at most")
    parser.add_argument("--annotated", action="store_true", help="take the data set's answers")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    examples = sample(load(options.data, options.format).examples, options.count)
    with options.output.open("w") as file:
        language_model = None if options.annotated else load_model(options.model)
        for one in records(examples, language_model, options.documents, options.tokens):
            file.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
