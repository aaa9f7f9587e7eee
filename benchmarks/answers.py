"""A log of a model's answers to a data set's questions, for a batch.

    python -m benchmarks.answers squad_v2_dev.json --count 200 --output answers.jsonl

Each question is answered greedily from the passage that holds its answer and the next ones of the
data set's, with the prompt of `attribot-rag ask`. A record is as docs/batch.md has it, the response
as token ids.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attribot_rag import LanguageModel, load_model
from attribot_rag.evaluation.data_sets import FORMATS, load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.models import DEFAULT_MODEL
from attribot_rag.progress import progress_bar
from attribot_rag.prompting import rag_prompt
from attribot_rag.recording.answer import generate_answer


def record(example: Example, language_model: LanguageModel, num_documents: int) -> dict[str, Any]:
    """An answered question; the answer may have no tokens."""
    first = example.evidence[0].document if example.evidence else 0
    documents = [*example.documents[first:], *example.documents[:first]][:num_documents]
    prompt_ids = language_model.encode_prompt(rag_prompt(example.question, documents, chat=True))
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=48)
    return {
        "id": example.key,
        "question": example.question,
        "documents": [{"id": one.id, "text": one.text} for one in documents],
        "response": [] if generation is None else list(generation.response_ids),
    }


def records(
    examples: list[Example], language_model: LanguageModel, num_documents: int
) -> Iterator[dict[str, Any]]:
    with progress_bar(shown=True, doing="answering", unit="question") as progress:
        progress.expect(len(examples))
        for example in examples:
            yield record(example, language_model, num_documents)
            progress.advance(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--format", choices=sorted(FORMATS), default="squad")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--documents", type=int, default=3, help="for each question")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    examples = sample(load(options.data, options.format).examples, options.count)
    with options.output.open("w") as file:
        for one in records([*examples], load_model(options.model), options.documents):
            file.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
