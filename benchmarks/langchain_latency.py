"""What a chain's answer waits for its attribution: with the handler over without it.

    python -m benchmarks.langchain_latency

Runs alternate, with an idle worker each time: the background attribution of an answer is awaited
before the next question.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
from transformers import pipeline

from attribot_rag import load_model
from attribot_rag.evaluation.setting import hardware
from langchain_attribot import AttributionCallbackHandler

PASSAGES = [
    f"House number {number} on Quay Street was built in {1800 + number}. "
    f"It has {number % 5 + 2} rooms and a blue door."
    for number in range(24)
]


def chain_of(chat: ChatHuggingFace, passages: Sequence[str] = PASSAGES) -> Runnable[Any, Any]:
    documents = [Document(page_content=text, id=str(i)) for i, text in enumerate(passages)]
    prompt = ChatPromptTemplate.from_template("{context}\n\nAnswer briefly: {question}")
    given: Runnable[Any, Any] = RunnableLambda(
        lambda question: {
            "context": "\n\n".join(one.page_content for one in documents),
            "question": question,
            "documents": documents,
        }
    )
    return given | prompt | chat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    local = load_model()
    make: Any = pipeline  # which is overloaded for tasks of all kinds
    answers = make(
        "text-generation",
        model=local.model,
        tokenizer=local.tokenizer,
        max_new_tokens=32,
        do_sample=False,
        return_full_text=False,
    )
    chat = ChatHuggingFace(llm=HuggingFacePipeline(pipeline=answers), tokenizer=local.tokenizer)
    chain = chain_of(chat)
    bare: list[float] = []
    background: list[float] = []
    for number in range(rounds + 1):  # the first round only warms up
        question = f"When was house number {number} built?"
        started = time.perf_counter()
        chain.invoke(question)
        bare.append(time.perf_counter() - started)
        handler = AttributionCallbackHandler(chat, mode="background")
        run_id = uuid4()
        started = time.perf_counter()
        chain.invoke(question, config={"callbacks": [handler], "run_id": run_id})
        background.append(time.perf_counter() - started)
        assert handler.result(run_id).attribution is not None
        handler.close()
    ratios = [with_it / alone for with_it, alone in zip(background[1:], bare[1:], strict=True)]
    print(f"{hardware()}, {local.name.rsplit('/', 1)[-1]}, {rounds} rounds")
    print(f"bare         {statistics.median(bare[1:]):.3f} s")
    print(f"background   {statistics.median(background[1:]):.3f} s")
    print(f"ratio        {statistics.median(ratios):.3f} (median; at most {max(ratios):.3f})")


if __name__ == "__main__":
    main()
