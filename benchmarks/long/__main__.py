"""What long answers cost by the sentence, beside their own first 2, 4 and 8 sentences.

    python -m benchmarks.long [--model MODEL] [--first N] [--folder FOLDER]

Ten given answers of 300 to 500 tokens, from ten documents each, are attributed with the cache of
their prompts and with `on_sentence`, then cut after some sentences. Measurements are kept in a
folder: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from attribot_rag import Attributor
from benchmarks import ROOT
from benchmarks.experiment.setting import hardware, model_digest
from benchmarks.experiment.tables import markdown_table
from benchmarks.long.cases import LongCase, cases
from benchmarks.long.measurement import CUTS, Measurement, ends_of, measure, recorded_prompt
from benchmarks.models import add_model, load_chat_model


def measurements(attributor: Attributor, number: int, case: LongCase) -> Iterator[Measurement]:
    """The whole answer, then its first sentences."""
    recorded = recorded_prompt(attributor, case)
    measure(attributor, case, number, recorded, (1, 80))  # warms up
    measurement, verdicts = measure(attributor, case, number, recorded)
    yield measurement
    ends = ends_of(verdicts)
    for count in CUTS:
        cut = count, ends[count - 1]
        yield measure(attributor, case, number, recorded, cut)[0]


def table(every: Sequence[Measurement]) -> str:
    """Medians and quartiles by the number of sentences that an answer was cut after."""
    columns = {str(cut): [each for each in every if each.cut == cut] for cut in (*CUTS, None)}
    columns["whole"] = columns.pop("None")
    rows = {
        "sentences": lambda each: each.sentences,
        "response tokens": lambda each: each.response_tokens,
        "seconds": lambda each: each.seconds,
        "seconds a sentence": lambda each: each.seconds / each.sentences,
        "tokens": lambda each: each.tokens,
        "tokens a sentence": lambda each: each.tokens / each.sentences,
        "passes": lambda each: each.passes,
        "passes a sentence": lambda each: each.passes / each.sentences,
        "first verdict, in sentences' time": lambda each: (
            each.first_seconds / each.seconds * each.sentences
        ),
    }
    cells = [
        [name, *(spread(map(value, column)) for column in columns.values())]
        for name, value in rows.items()
    ]
    for name in ("right", "false"):
        counts = (str(sum(getattr(each, name) for each in column)) for column in columns.values())
        cells.append([f"{name} citations", *counts])
    cells.append(["missed citations", *map(missed, columns.values())])
    return markdown_table(["", *columns], cells)


def spread(values: Iterable[float]) -> str:
    """The median, with the quartiles."""
    low, middle, high = np.quantile([*values], (0.25, 0.5, 0.75))
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def missed(column: Sequence[Measurement]) -> str:
    kinds = Counter[str]()
    for each in column:
        kinds.update(each.missed)
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{kinds.total()}: {named}" if kinds else "0"


def linearity(every: Sequence[Measurement], name: str) -> str:
    """The line through the cut answers, and how far the whole answers are off it."""
    cut = [each for each in every if each.cut is not None]
    whole = [each for each in every if each.cut is None]
    slope, start = np.polyfit([x.sentences for x in cut], [getattr(x, name) for x in cut], 1)
    off = (getattr(each, name) / (start + slope * each.sentences) for each in whole)
    return f"{name}: {start:.1f} + {slope:.2f} a sentence; whole answers, times: {spread(off)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_model(parser)
    parser.add_argument("--first", type=int, help="cases")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "long")
    options = parser.parse_args()
    torch.set_num_threads(1)
    language_model = load_chat_model(options.model)
    attributor = Attributor(language_model, progress=False)
    options.folder.mkdir(parents=True, exist_ok=True)
    digest = model_digest(language_model)
    every: list[Measurement] = []
    for number, case in enumerate(cases()[: options.first], start=1):
        kept = options.folder / f"{digest}-{number}.json"
        if not kept.exists():
            made = map(asdict, measurements(attributor, number, case))
            kept.write_text(json.dumps([*tqdm(made, f"case {number}")]))
        every += [Measurement(**each) for each in json.loads(kept.read_text())]
    print(f"{hardware(language_model.device)}; medians and quartiles\n\n{table(every)}\n")
    print(linearity(every, "seconds"), linearity(every, "tokens"), sep="\n")


if __name__ == "__main__":
    main()
