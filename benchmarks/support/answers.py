"""A model's answers to SQuAD's questions, attributed: python -m benchmarks.support.answers.

Each question is asked about four texts of its article, in `--variants` different drawings of the
other three: short passages of three sentences, or whole paragraphs. An answer is appended to the
file as soon as it is there; the same command goes on with the questions that are missing.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from attribot_rag import Attribution, Attributor
from attribot_rag.annotation import sentences
from attribot_rag.attributor import rag_prompt
from attribot_rag.context import Document
from attribot_rag.model import Prompt
from attribot_rag.model.local_model import LocalModel
from benchmarks.models import add_model, load_chat_model

Passages = Literal["short", "paragraphs"]
NUM_TEXTS = 4
NUM_SENTENCES = 3
MAX_NEW_TOKENS = 40
BATCH = 8


class Question(NamedTuple):
    """A question with the texts that are retrieved for it, one of which has an answer of `gold`."""

    key: str
    article: str
    text: str
    gold: tuple[str, ...]
    passages: tuple[str, ...]


def questions(path: Path, passages: Passages, variants: int) -> Iterator[Question]:
    """All answerable questions of a SQuAD file, one drawing of all after the other."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    for variant in range(variants):
        for article in articles:
            texts = [paragraph["context"] for paragraph in article["paragraphs"]]
            for index, paragraph in enumerate(article["paragraphs"]):
                others = texts[:index] + texts[index + 1 :]
                for asked in paragraph["qas"]:
                    if answers := asked.get("answers"):
                        key = f"{passages}-{variant}-{asked['id']}"
                        drawn = random.Random(key)
                        at = answers[0]["answer_start"]
                        chosen = [
                            (texts[index], at),
                            *(
                                (text, drawn.randrange(len(text)))
                                for text in drawn.sample(others, 3)
                            ),
                        ]
                        drawn.shuffle(chosen)
                        shown = [
                            _around(text, at) if passages == "short" else text
                            for text, at in chosen
                        ]
                        gold = tuple(dict.fromkeys(answer["text"] for answer in answers))
                        yield Question(key, article["title"], asked["question"], gold, tuple(shown))


def _around(text: str, at: int) -> str:
    """The sentence with this character, with one before and one after it."""
    parts, end = sentences(text, "en"), 0
    ends = [end := end + len(part) for part in parts]
    index = next(i for i, end in enumerate(ends) if at < end)
    first = max(0, min(index - 1, len(parts) - NUM_SENTENCES))
    return "".join(parts[first : first + NUM_SENTENCES]).strip()


def answers(attributor: Attributor, asked: Sequence[Question]) -> Iterator[dict[str, Any]]:
    """The attributed answers as data, with what the model makes of the question by itself."""
    model = attributor.language_model
    assert isinstance(model, LocalModel)
    chat = bool(model.tokenizer.chat_template)
    prompts = [rag_prompt(q.text, list(map(Document, q.passages)), chat) for q in asked]
    for question, prompt, ids in zip(asked, prompts, _generated(model, prompts), strict=True):
        if not model.decode(ids).strip():
            yield {**question._asdict(), "attribution": None}
            continue
        attribution = attributor.attribute(prompt, ids, list(question.passages))
        cited = [attribution.sources[i].text for i in _cited(attribution)]
        likelihood = partial(question_likelihood, model, question.text)
        data = attribution.to_dict()
        yield {
            **question._asdict(),
            "attribution": data,
            "asked": {"alone": likelihood([]), "cited": likelihood(cited)},
        }


@torch.no_grad()
def _generated(model: LocalModel, prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """The greedy answers' ids, made in one batch: a step of it takes hardly longer than of one."""
    ids = [model.encode_prompt(prompt) for prompt in prompts]
    longest, tokenizer = max(map(len, ids)), model.tokenizer
    ends = model.model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    pad = tokenizer.eos_token_id
    padded = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
    output = cast(Any, model.model).generate(
        padded,
        attention_mask=mask,
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=False,
        pad_token_id=pad,
    )
    for row in output[:, longest:].tolist():
        end = next((i for i, token in enumerate(row) if token in ends), len(row))
        yield row[:end]


def _cited(attribution: Attribution) -> Sequence[int]:
    """The cited sources of the first sentence that is judged."""
    judged = (v for v in attribution.verdicts if v.kind not in ("trivial", "reasoning"))
    first = next(judged, None)
    return () if first is None else first.traced(attribution.verdicts).source_ids


@torch.no_grad()
def question_likelihood(
    model: LocalModel, question: str, passages: Sequence[str]
) -> list[tuple[int, int, float]]:
    """The tokens of the question, with their log-likelihoods in nats after only these passages."""
    chat = bool(model.tokenizer.chat_template)
    prompt = rag_prompt(question, [Document(" ".join(passages) or " ")], chat)
    text = model.decode(model.encode_prompt(prompt))
    before = text[: text.rindex(question.strip())].rstrip()
    first, second = (
        model.tokenizer(part, add_special_tokens=False, return_offsets_mapping=True)
        for part in (before, before + " " + question.strip())
    )
    ids, spans = second["input_ids"], second["offset_mapping"]
    logits: Tensor = model.model(torch.tensor([ids])).logits[0].float()
    likely, begin = torch.log_softmax(logits, -1), len(before) + 1
    return [
        (max(0, spans[i][0] - begin), spans[i][1] - begin, round(float(likely[i - 1, ids[i]]), 4))
        for i in range(len(first["input_ids"]), len(ids))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("squad", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--passages", choices=("short", "paragraphs"), default="short")
    parser.add_argument("--variants", type=int, default=2)
    add_model(parser)
    options = parser.parse_args()
    done = set()
    if options.output.exists():
        done = {json.loads(line)["key"] for line in options.output.open(encoding="utf-8")}
    torch.set_num_threads(1)
    attributor = Attributor(load_chat_model(options.model), progress=False)
    every = questions(options.squad, options.passages, options.variants)
    missing = (question for question in every if question.key not in done)
    while batch := list(islice(missing, BATCH)):
        for result in answers(attributor, batch):
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
