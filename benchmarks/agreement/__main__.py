r"""Whether a reader cites what caused another model's answers.

    python -m benchmarks.agreement --reader MODEL --hotpotqa hotpotqa_distractor_40.json \
        --squad squad_v2_dev_6_articles.json [--model MODEL] [--split held_out] [--given]

The answers are those of `benchmarks.natural`, by the model that answers; or, `--given`, "The answer
is X." of `benchmarks.readers`, where the data sets know X. That model is scored for the causes, and
the reader reads the same messages and the answer's text. A citation of the reader is false if it is
false as a cause, by plain passes of the model that answered.

Answers and rows are kept in a folder: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from attribot_rag import Document, load_model
from benchmarks import ROOT
from benchmarks.agreement.sentences import PairedAnswer, paired_sentences, table
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import prepare
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.setting import hardware
from benchmarks.halves import Split, add_halves, shows_cases
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.models import add_model, load_chat_model
from benchmarks.natural.answers import MAX_NEW_TOKENS, TEMPLATE, examples_of, kept_answer
from benchmarks.natural.truth import PromptRows
from benchmarks.questions import add_files, files
from benchmarks.readers.claims import hotpotqa_answers, squad_answers

_GIVEN = {"hotpotqa": hotpotqa_answers, "squad": squad_answers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    add_halves(parser)
    add_model(parser)
    parser.add_argument("--reader", required=True, help="another model, which reads the answers")
    parser.add_argument("--given", action="store_true", help="the data sets' own answers")
    parser.add_argument("--count", type=int, default=100, help="questions of each set, both halves")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "agreement")
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = files(parser, options)
    if options.given:
        examples = [
            example
            for name, path in paths.items()
            for example in [*_given(name, path, options.split)][: options.count // 2]
        ]
    else:
        published = ResultStore(ROOT / "docs" / "evaluation" / "results.jsonl").answers
        examples = examples_of(paths, options.split, options.count, published)
    language_model, store = load_chat_model(options.model), RowStore(options.folder)
    attributor = CachingAttributor(language_model, store)
    reader = CachingAttributor(load_model(options.reader), store)
    answers = []
    for example in tqdm(examples, unit="answer", mininterval=10):
        question = prepare(example, language_model, TEMPLATE, MAX_NEW_TOKENS)
        generation = kept_answer(question, store)
        if generation is None:
            continue
        prompt = question.prompt_input.prompt
        cause = attributor.attribute_generation(generation, example.documents, prompt)
        reading = reader.attribute(
            prompt, cause.response, example.documents, answered_by=language_model.name
        )
        rows = PromptRows(question, generation.response_ids, store)
        data_set = example.key.split("/")[0]
        answers.append(PairedAnswer(data_set, tuple(paired_sentences(cause, reading, rows))))
    names = f"answers of {Path(language_model.name).name}, read by {Path(options.reader).name}"
    print(f"{options.split}, {names}, {hardware()}\n\n{table(answers)}")
    if shows_cases(options):
        print("\nnot the same:")
        for answer in answers:
            for sentence in answer.sentences:
                if sentence.causes != sentence.read:
                    print(f"  {sentence}")
    print(f"\nrows read from the folder: {store.known}, scored: {store.new}")


def _given(name: str, path: Path, split: Split) -> Iterator[Example]:
    """The answers that the shown paragraphs hold."""
    for claim in _GIVEN[name](path, split):
        if claim.attributable:
            documents = tuple(map(Document, claim.references))
            yield Example(f"{name}/{claim.id}", claim.question, documents, response=claim.claim)


if __name__ == "__main__":
    main()
