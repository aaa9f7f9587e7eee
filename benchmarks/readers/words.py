r"""What the reader without a model finds, and how long it takes.

    python -m benchmarks.readers.words attributionbench_dev.jsonl \
        --squad squad_v2_dev_6_articles.json --hotpotqa hotpotqa_distractor_40.json

The sets are those of benchmarks.readers, all answers of SQuAD and HotpotQA. Its limits were chosen
on the first half of each; both halves are printed. With `--embeddings`, all-MiniLM-L6-v2 helps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from attribot_rag import Document, WordsReader
from attribot_rag.attributor.prompts import locate_documents, rag_prompt
from attribot_rag.context import ContextOptions, TokenizedText
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.errors import DocumentsNotLocated
from benchmarks.experiment.setting import hardware
from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import SPLITS, share
from benchmarks.readers.claims import (
    Claim,
    answers_to_others,
    hotpotqa_answers,
    judged_claims,
    squad_answers,
)
from benchmarks.readers.measures import embedding, macro_f1
from benchmarks.readers.places import outcome
from benchmarks.readers.reading import Reading, reading_of

NUM_CHUNKS, NUM_SENTENCES, NUM_RUNS = 10, 5, 20
LEAST_CITED = 0.5  # of the sentences of a supported claim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", type=Path, nargs="?", help="AttributionBench's")
    parser.add_argument("--squad", type=Path)
    parser.add_argument("--hotpotqa", type=Path)
    parser.add_argument("--embeddings", action="store_true")
    options = parser.parse_args()
    reader = WordsReader(helper=MiniLM() if options.embeddings else None)
    print(f"{hardware()}\n")
    rows = []
    for split in SPLITS:
        if options.squad:
            answers = squad_answers(options.squad, split)
            rows.append(
                [
                    f"SQuAD, {split}",
                    *_placed(reader, answers),
                    _cited(reader, answers_to_others(answers)),
                ]
            )
        if options.hotpotqa:
            answers = hotpotqa_answers(options.hotpotqa, split)
            rows.append([f"HotpotQA, {split}", *_placed(reader, answers), ""])
    header = ["set", "the right sentence", "a wrong one", "any, where none holds the answer"]
    print(markdown_table([*header, "any, for the answer to another question"], rows))
    if options.claims:
        for split in SPLITS:
            claims = judged_claims(options.claims, split)
            print(f"\nAttributionBench, {split}: {_judged(reader, claims)}")
    if options.squad and not options.embeddings:
        print(f"\n{_price(options.squad)}")


class MiniLM:
    """Its embeddings, as LangChain gives them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(embedding(text)) for text in texts]


def _readings(reader: WordsReader, claims: Sequence[Claim]) -> Iterator[Reading]:
    for claim in claims:
        documents = [Document(text) for text in claim.references]
        prompt = rag_prompt(claim.question, documents, chat=True)
        try:
            yield reading_of(claim, reader.attribute(prompt, claim.claim, documents))
        except DocumentsNotLocated:
            continue


def _placed(reader: WordsReader, claims: Sequence[Claim]) -> list[str]:
    readings = [*_readings(reader, claims)]
    given = Counter((each.claim.attributable, outcome(each, each.cited)) for each in readings)
    num_true = sum(each.claim.attributable for each in readings)
    return [
        share(given[True, "right"], num_true),
        share(given[True, "false"], num_true),
        share(given[False, "false"], len(readings) - num_true),
    ]


def _cited(reader: WordsReader, claims: Sequence[Claim]) -> str:
    readings = [*_readings(reader, claims)]
    return share(sum(bool(each.cited) for each in readings), len(readings))


def _judged(reader: WordsReader, claims: Sequence[Claim]) -> str:
    readings = [*_readings(reader, claims)]
    found, labels = [], []
    for each in readings:
        judged = [x for x in each.verdicts if x.kind not in ("trivial", "reasoning")]
        cited = sum(bool(verdict.source_ids) for verdict in judged)
        found.append(bool(cited) and cited >= LEAST_CITED * len(judged))
        labels.append(each.claim.attributable)
    yes = sum(a and b for a, b in zip(found, labels, strict=True))
    no = sum(a and not b for a, b in zip(found, labels, strict=True))
    return (
        f"macro-F1 {macro_f1(found, labels):.2f}; of supported claims {share(yes, sum(labels))}, "
        f"of others {share(no, len(labels) - sum(labels))}"
    )


def _price(path: Path) -> str:
    """The time for an answer of five sentences from ten chunks, which it repeats."""
    reader, split = WordsReader(), make_splitter("sentence", "en")
    whole, locating = [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        texts = [paragraph["context"] for paragraph in article["paragraphs"][:NUM_CHUNKS]]
        answer = "".join(text[: split_spans(text, split)[0][1]] for text in texts[:NUM_SENTENCES])
        documents = [*map(Document, texts)]
        prompt = rag_prompt(article["paragraphs"][0]["qas"][0]["question"], documents, chat=False)
        read = TokenizedText((), str(prompt), ())

        def attribute() -> object:
            return reader.attribute(prompt, answer, documents)  # noqa: B023

        def locate() -> object:
            return locate_documents(read, documents, prompt, ContextOptions())  # noqa: B023

        attribute()
        whole.append(_seconds(attribute))
        locating.append(_seconds(locate))
    return (
        f"{NUM_SENTENCES} sentences, {NUM_CHUNKS} chunks: {1000 * median(whole):.0f} ms of "
        f"processor time in the median of {len(whole)} answers, each the best of {NUM_RUNS}: "
        f"{median(whole) / median(locating):.1f} times as long as it takes to find the documents "
        "in the prompt and cut them into sentences"
    )


def _seconds(run: Callable[[], object]) -> float:
    """The least seconds that it took, as other programs make it take longer."""
    times = []
    for _ in range(NUM_RUNS):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
