"""The loop of all runners: it reads the cases, and writes each result as soon as it is there.

A runner is a program of a peer's own environment. It imports nothing of attribot-rag.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

Case = dict[str, Any]
"""An answered question.

`prompt` is the text that the model saw, chat template included; `message` is the user's part of it,
`context` the documents in that. `sources` are the places of each source in `prompt`, `source_texts`
the sources of each document as the data set has them, None for sentences. `digest` is that of
prompt, answer and sources.
"""

Result = dict[str, Any]
"""The `scores` of a case's sources, and what else is to be kept."""

Attribute = Callable[[Any, Any, Case], Result]
"""Attributes a case by a model and its tokenizer."""


def run(attribute: Attribute, **model_options: Any) -> None:
    """Attribute what has no result yet, what is likely quickest first.

    The program is called as `RUNNER CASES RESULTS MODEL_FOLDER`.
    """
    cases_path, results_path, folder = map(Path, sys.argv[1:4])
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # The class has no types.
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **model_options)
    model = loaded.eval()
    cases = json.loads(cases_path.read_text())
    results = read(results_path)
    cases.sort(key=lambda case: len(case["prompt"]) * len(case["sources"]))
    for number, case in enumerate(cases, start=1):
        earlier = results.get(case["key"], {})
        if earlier.get("digest") == case["digest"] and "error" not in earlier:
            continue
        result = timed(partial(attribute, model, tokenizer, case))
        results[case["key"]] = {"digest": case["digest"], **result}
        results_path.write_text(json.dumps(results, indent=1))
        outcome = result.get("error") or f"{result['seconds']:.1f} s"
        print(f"{results_path.stem} {number}/{len(cases)}: {outcome}", flush=True)


def read(path: Path) -> dict[str, Result]:
    """The results of a file by the keys of cases; none if it does not exist."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def timed(attribute: Callable[[], Result]) -> Result:
    """The result with its seconds of the processor, or the error in its place."""
    started = time.process_time()
    try:
        result = attribute()
    except Exception as error:
        traceback.print_exc()
        return {"error": traceback.format_exception_only(error)[-1].strip()}
    return {**result, "seconds": round(time.process_time() - started, 3)}


def without(text: str, intervals: Iterable[Iterable[int]]) -> str:
    """The text without these characters."""
    for start, end in sorted(map(tuple, intervals), reverse=True):
        text = text[:start] + text[end:]
    return text


def stripped(text: str, interval: Iterable[int]) -> tuple[int, int]:
    """The interval without white space at its ends."""
    start, end = interval
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def summed(
    scores: Iterable[float], offsets: Iterable[tuple[int, int]], sources: list[list[list[int]]]
) -> list[float]:
    """Scores of tokens as scores of sources; a token belongs where its last character stands.

    So a token that begins with the space between two sentences belongs to the second.
    """
    pairs = zip(scores, offsets, strict=True)
    last = [(score, end - 1) for score, (start, end) in pairs if end > start]
    return [
        float(sum(score for score, at in last if any(start <= at < end for start, end in places)))
        for places in sources
    ]
