"""How often the citations of the model's own answers are true, and how often causes are missed.

    python -m benchmarks.natural --hotpotqa hotpotqa_distractor_40.json \
        --squad squad_v2_dev_6_articles.json [--split held_out] [--timed]

The embedded model answers questions that the published evaluation does not have, on the ten
paragraphs of HotpotQA and five neighbouring paragraphs of SQuAD. Every second question is held out.
Thresholds may be set by the calibration half, whose wrong sentences are printed. For the held-out
half only counts are printed, unless `--held-out-cases` is given.

Answers and scored rows are kept in a folder (`--folder`): a run that was stopped goes on, and
after a change of the verdicts only new rows are scored. With `--timed` each question is answered
and attributed anew, and only the truth is read from there; so tokens and seconds are known.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from tqdm import tqdm

from attribot_rag import Attributor, load_model
from attribot_rag.evaluation.generation import GeneratedAnswer, answer_question, prepare
from attribot_rag.evaluation.results import ResultStore
from attribot_rag.evaluation.setting import hardware
from benchmarks.labelled.cases import SPLITS
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.natural.answers import MAX_NEW_TOKENS, TEMPLATE, AnswerStore, examples_of
from benchmarks.natural.report import JudgedAnswer, table, wrong_sentences
from benchmarks.natural.truth import PromptRows, judged_sentences

DATA_SETS = ("hotpotqa", "squad")
ROOT = Path(__file__).parents[2]


def judge(answered: GeneratedAnswer, attributor: Attributor, store: RowStore) -> JudgedAnswer:
    """Attribute the answer and judge its sentences; measured if its generation was timed."""
    question, generation = answered.question, answered.generation
    started = time.process_time()
    attribution = attributor.attribute_generation(
        generation, question.example.documents, question.prompt_input.prompt
    )
    seconds = time.process_time() - started
    rows = PromptRows(question, generation.response_ids, store)
    sentences = tuple(judged_sentences(attribution, rows))
    if answered.seconds is None:
        return JudgedAnswer(question.example.key, sentences)
    tokens = attribution.provenance.prefilled_tokens + attribution.provenance.scored_tokens
    return JudgedAnswer(question.example.key, sentences, tokens, seconds / answered.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in DATA_SETS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    parser.add_argument("--split", choices=SPLITS, default="calibration")
    parser.add_argument("--count", type=int, default=100, help="questions of each set, both halves")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "natural")
    parser.add_argument("--held-out-cases", action="store_true")
    parser.add_argument("--timed", action="store_true")
    options = parser.parse_args()
    paths = {name: getattr(options, name) for name in DATA_SETS if getattr(options, name)}
    if not paths:
        parser.error("name a file with --hotpotqa or --squad")
    torch.set_num_threads(1)
    published = ResultStore(ROOT / "docs" / "evaluation" / "results.jsonl").answers
    examples = examples_of(paths, options.split, options.count, published)
    language_model, store = load_model(), RowStore(options.folder)
    answers = AnswerStore(options.folder / "answers.jsonl")
    attributor = (
        Attributor(language_model, progress=False)
        if options.timed
        else CachingAttributor(language_model, store)
    )
    judged = []
    if options.timed:
        examples = [*examples[:1], *examples]  # the first of all is slower, and not counted
    for example in tqdm(examples, unit="question", mininterval=10):
        question = prepare(example, language_model, TEMPLATE, MAX_NEW_TOKENS)
        answered = answer_question(question, "cpu") if options.timed else answers.get(question)
        if answered is not None:
            judged.append(judge(answered, attributor, store))
    judged = judged[options.timed :]
    print(f"{options.split}, {hardware()}\n\n{table(judged)}")
    if options.split == "calibration" or options.held_out_cases:
        print("\nwrong:", *wrong_sentences(judged), sep="\n  ")
    print(f"\nrows read from the folder: {store.known}, scored: {store.new}")


if __name__ == "__main__":
    main()
