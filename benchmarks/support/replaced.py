"""Is a word in the place of another told? python -m benchmarks.support.replaced

For each text of replaced.json, one question has a word in the place of one of the text's, and one
puts it in another word. Counts of each half are those of words below the limit; it was chosen on
the first half. Then the library attributes answers over everyday files, half of which mislead.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from attribot_rag import Attributor, Document, LocalModel, load_model
from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.support.support import UNLIKELY
from benchmarks.experiment.setting import hardware
from benchmarks.support.answers import question_likelihood

DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
HALVES = {"to choose by": slice(None, None, 2), "reported": slice(1, None, 2)}


def nats_of(model: LocalModel, text: str, question: str, word: str) -> float:
    """The log-likelihood of a word of the question after the text alone."""
    start = question.index(word)
    tokens = question_likelihood(model, question, [text])
    return sum(nats for first, end, nats in tokens if first < start + len(word) and start < end)


def main() -> None:
    torch.set_num_threads(1)
    print(hardware())
    model = load_model()
    for name, half in HALVES.items():
        texts = DATA["texts"][half]
        for kind in ("replaced", "reworded"):
            told = sum(nats_of(model, each["text"], *each[kind]) < UNLIKELY for each in texts)
            print(f"{name}, {kind}: {told} of {len(texts)} are told")
    documents = [Document(text, name, {"title": name}) for name, text in DATA["files"].items()]
    attributor = Attributor(model, progress=False)
    for answer in DATA["answers"]:
        prompt = rag_prompt(answer["question"], documents, chat=True)
        attribution = attributor.attribute(prompt, answer["answer"], documents)
        print("misleads:" if answer["misleads"] else "is right:", attribution.to_cited_text())


if __name__ == "__main__":
    main()
