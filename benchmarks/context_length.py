"""How the saving grows with the context: 500 to 8,000 tokens of paragraphs of one article.

    python -m benchmarks.context_length SQUAD.json

One question and the paragraph that answers it, among as many other paragraphs as the context is to
hold. Naive leave-one-out (the reference with its head on the response) is extrapolated from three
ablations spread evenly over the prompt; everything else is measured, generation's cache taken over.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from attribot_rag import Document, LanguageModel, load_model
from attribot_rag.context import Ablation
from attribot_rag.methods import Auto, Hierarchical, Masked, Method
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions
from benchmarks.examples import Example, GeneratedAnswer, answer

LENGTHS = (500, 1000, 2000, 4000, 8000)
METHODS: dict[str, Method] = {
    "masked hierarchical, keep 3": Hierarchical(coarse=Masked(), fine=Masked(), shorten=False),
    "auto": Auto(),
}


def example_of(path: Path, num_tokens: int, language_model: LanguageModel) -> Example:
    """The first article's first question, with paragraphs of all articles up to this length."""
    articles = json.loads(path.read_text())["data"]
    held = articles[0]["paragraphs"][0]
    others = [one["context"].strip() for article in articles for one in article["paragraphs"][1:]]
    chosen, used = [held["context"].strip()], len(language_model.encode(held["context"]))
    for text in others:
        length = len(language_model.encode(text))
        if used + length <= num_tokens:
            chosen.append(text)
            used += length
    chosen.insert(len(chosen) // 2, chosen.pop(0))
    question = next(one for one in held["qas"] if not one["is_impossible"])
    documents = tuple(Document(text) for text in chosen)
    return Example(f"length/{num_tokens}", question["question"], documents)


def naive(
    answered: GeneratedAnswer, models: ScoringModels, model: LanguageModel
) -> tuple[int, float]:
    count = len(answered.context.sources)
    options = ScoringOptions(implementation="reference")
    scorer = Scorer(model, answered.generation, answered.context, models, options=options)
    chosen = sorted({int((number + 0.5) * count / 3) for number in range(3)})
    started = time.perf_counter()
    scorer.score([Ablation.of(index) for index in chosen])
    seconds = (time.perf_counter() - started) * (count + 1) / (len(chosen) + 1)
    row = len(answered.generation.prompt_ids) + len(answered.generation.response_ids) - 1
    return row * (count + 1), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("squad", type=Path, help="SQuAD 2.0 JSON")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    arguments = parser.parse_args()
    model = load_model()
    models = ScoringModels(model.model)
    print(
        "| prompt tokens | sources | answer tokens | tokens per masked source | method | tokens "
        "| seconds | naive seconds | fewer tokens | times faster |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for length in arguments.lengths:
        answered = answer(example_of(arguments.squad, length, model), model)
        assert answered is not None
        METHODS["auto"].run(Scorer(model, answered.generation, answered.context, models))
        num_tokens, seconds = naive(answered, models, model)
        tail = len(answered.generation.prompt_ids) - answered.context.end
        for name, method in METHODS.items():
            started = time.perf_counter()
            scorer = Scorer(model, answered.generation, answered.context, models)
            method.run(scorer)
            took = time.perf_counter() - started
            print(
                f"| {len(answered.generation.prompt_ids):,} | {len(answered.context.sources)} "
                f"| {len(answered.generation.response_ids)} "
                f"| {tail + len(answered.generation.response_ids) - 1} | {name} "
                f"| {scorer.usage.tokens:,} | {took:.2f} | {seconds:.1f} "
                f"| {num_tokens / scorer.usage.tokens:.0f} | {seconds / took:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
