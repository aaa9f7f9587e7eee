"""The shares of true citations in the model's own answers, and of missed causes.

    python -m benchmarks.natural --hotpotqa hotpotqa_distractor_40.json \
        --squad squad_v2_dev_6_articles.json [--split held_out] [--unanswerable] [--model MODEL]

The model answers questions that the published evaluation does not have, on the ten
paragraphs of HotpotQA and five neighbouring paragraphs of SQuAD. Every second question is held out.
Thresholds may be set by the calibration half, whose wrong sentences are printed. For the held-out
half only counts are printed, unless `--held-out-cases` is given.

With `--claims`, a file of AttributionBench, the answers are sentences of other models, which
people found attributable to the one to four references that are the documents here.

Answers and scored rows are kept in a folder (`--folder`): a run that was stopped goes on, and
after a change of the verdicts only new rows are scored.
"""

from __future__ import annotations

import argparse
from functools import cache, partial
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks import ROOT
from benchmarks.experiment.generation import prepare
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.setting import hardware
from benchmarks.halves import add_halves, shows_cases
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.models import add_model, load_chat_model
from benchmarks.natural.answers import (
    MAX_NEW_TOKENS,
    TEMPLATE,
    claims_of,
    examples_of,
    kept_answer,
)
from benchmarks.natural.report import JudgedAnswer, table, wrong_sentences
from benchmarks.natural.truth import PromptRows, judged_sentences
from benchmarks.questions import add_files, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    add_halves(parser)
    add_model(parser)
    parser.add_argument("--count", type=int, default=100, help="questions of each set, both halves")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "natural")
    parser.add_argument(
        "--unanswerable", action="store_true", help="SQuAD's questions without an answer"
    )
    parser.add_argument("--claims", type=Path, metavar="FILE", help="sentences of large models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.claims:
        examples = claims_of(options.claims, options.split, options.count)
    else:
        published = ResultStore(ROOT / "docs" / "evaluation" / "results.jsonl").answers
        examples = examples_of(
            files(parser, options),
            options.split,
            options.count,
            published,
            unanswerable=options.unanswerable,
        )
    language_model, store = load_chat_model(options.model), RowStore(options.folder)
    attributor = CachingAttributor(language_model, store)
    masked = CachingAttributor(language_model, store, "masked", verdicts=None)
    judged = []
    for example in tqdm(examples, unit="question", mininterval=10):
        question = prepare(example, language_model, TEMPLATE, MAX_NEW_TOKENS)
        generation = kept_answer(question, store)
        if generation is not None:
            prompt = question.prompt_input.prompt
            given = generation, example.documents, prompt
            rows = PromptRows(question, generation.response_ids, store)
            sentences = judged_sentences(
                attributor.attribute_generation(*given),
                rows,
                cache(partial(masked.attribute_generation, *given)),
            )
            judged.append(JudgedAnswer(example.key, tuple(sentences)))
    print(f"{options.split}, {hardware()}\n\n{table(judged)}")
    if shows_cases(options):
        print("\nwrong:", *wrong_sentences(judged), sep="\n  ")
    print(f"\nrows read from the folder: {store.known}, scored: {store.new}")


if __name__ == "__main__":
    main()
