"""What an answer waits for its attribution in LangChain and LlamaIndex, by number of documents.

    python -m benchmarks.integrations langchain --hotpotqa hotpotqa_distractor_40.json
    python -m benchmarks.integrations llama_index --hotpotqa hotpotqa_distractor_40.json

Each question is answered alone, with an inline attribution and with one in the background, in turn,
each with its evidence among 2, 5 and 10 paragraphs. The first question only warms up.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from attribot_rag import LanguageModel, load_model
from attribot_rag.context import Document
from attribot_rag.evaluation.data_sets import load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.setting import hardware
from attribot_rag.runtime import AttributedRun, Mode

COUNTS = (2, 5, 10)
MODES: tuple[Mode, ...] = ("inline", "background")
MAX_NEW_TOKENS = 60


class Asked(NamedTuple):
    """A question that was answered; `wait` gives its finished run."""

    seconds: float
    wait: Callable[[], AttributedRun]


class Framework(Protocol):
    def ask(self, documents: Sequence[Document], question: str, mode: Mode | None) -> Asked:
        """Answer from the documents; without a mode, without attribution."""


class LangChain:
    """The chain of the README, by the callback handler."""

    def __init__(self, local: LanguageModel) -> None:
        from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
        from transformers import pipeline

        from langchain_attribot import AttributionCallbackHandler

        make: Any = pipeline  # which is overloaded for tasks of all kinds
        answers = make(
            "text-generation",
            model=local.model,
            tokenizer=local.tokenizer,
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
            return_full_text=False,
        )
        llm = HuggingFacePipeline(pipeline=answers)
        self._chat = ChatHuggingFace(llm=llm, tokenizer=local.tokenizer)
        self._handlers = {mode: AttributionCallbackHandler(self._chat, mode=mode) for mode in MODES}

    def ask(self, documents: Sequence[Document], question: str, mode: Mode | None) -> Asked:
        from langchain_core.documents import Document as Retrieved
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnableLambda, RunnablePassthrough

        found = [Retrieved(page_content=one.text, id=one.id) for one in documents]
        retriever: Any = RunnableLambda(lambda _: found)
        passages = retriever | (lambda given: "\n\n".join(one.page_content for one in given))
        prompt = ChatPromptTemplate.from_template(
            "{passages}\n\nAnswer in one sentence: {question}"
        )
        chain = {"passages": passages, "question": RunnablePassthrough()} | prompt | self._chat
        callbacks = [] if mode is None else [self._handlers[mode]]
        started = time.perf_counter()
        message = chain.invoke(question, {"callbacks": [*callbacks]})
        seconds = time.perf_counter() - started

        def wait() -> AttributedRun:
            return callbacks[0].result(message.response_metadata["attribution"]["run_id"])

        return Asked(seconds, wait)


class LlamaIndex:
    """The engine of the README, by the postprocessor."""

    def __init__(self, local: LanguageModel) -> None:
        from llama_index.llms.huggingface import HuggingFaceLLM
        from llama_index.postprocessor.attribot import AttributionPostprocessor

        self._llm = HuggingFaceLLM(
            model=local.model,
            tokenizer=local.tokenizer,
            is_chat_model=True,
            max_new_tokens=MAX_NEW_TOKENS,
            generate_kwargs={"do_sample": False},
        )
        self._postprocessors = {mode: AttributionPostprocessor(mode=mode) for mode in MODES}

    def ask(self, documents: Sequence[Document], question: str, mode: Mode | None) -> Asked:
        from llama_index.core import SummaryIndex
        from llama_index.core.schema import TextNode

        index = SummaryIndex([TextNode(text=one.text) for one in documents])
        postprocessors = [] if mode is None else [self._postprocessors[mode]]
        engine = index.as_query_engine(llm=self._llm, node_postprocessors=postprocessors)
        started = time.perf_counter()
        response = engine.query(question)
        seconds = time.perf_counter() - started
        return Asked(seconds, lambda: postprocessors[0].result(response))


FRAMEWORKS: dict[str, Callable[[LanguageModel], Framework]] = {
    "langchain": LangChain,
    "llama_index": LlamaIndex,
}


class Cost(NamedTuple):
    """Seconds of one question; `later` from the end of the answer to its attribution."""

    alone: float
    inline: float
    background: float
    later: float
    prompt_tokens: int
    answer_tokens: int


def cost(framework: Framework, documents: Sequence[Document], question: str) -> Cost:
    alone = framework.ask(documents, question, None)
    inline = framework.ask(documents, question, "inline")
    found = inline.wait().attribution
    assert found is not None
    background = framework.ask(documents, question, "background")
    answered = time.perf_counter()
    assert background.wait().attribution is not None
    return Cost(
        alone.seconds,
        inline.seconds,
        background.seconds,
        time.perf_counter() - answered,
        found.provenance.prompt_tokens,
        len(found.token_spans),
    )


def chosen(example: Example, count: int) -> list[Document]:
    """As many of its paragraphs in their order, those with the evidence among them."""
    held = {span.document for span in example.evidence}
    order = sorted(range(len(example.documents)), key=lambda index: index not in held)
    return [example.documents[index] for index in sorted(order[:count])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("--hotpotqa", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--seconds", type=float, help="when to begin no further question")
    options = parser.parse_args()
    local = load_model()
    framework = FRAMEWORKS[options.framework](local)
    examples = sample(load(options.hotpotqa, "hotpotqa").examples, options.questions + 1)
    cost(framework, chosen(examples[0], 2), examples[0].question)
    costs: dict[int, list[Cost]] = {count: [] for count in COUNTS}
    started = time.perf_counter()
    for example in examples[1:]:
        if options.seconds is not None and time.perf_counter() - started > options.seconds:
            break
        for count, found in costs.items():
            found.append(cost(framework, chosen(example, count), example.question))
    print(f"{hardware()}, {local.name.rsplit('/', 1)[-1]}, {options.framework}")
    print(f"medians of {len(costs[COUNTS[0]])} questions")
    print("| documents | prompt tokens | answer tokens | alone | inline | background | later |")
    for count, found in costs.items():
        middle = Cost(*(statistics.median(values) for values in zip(*found, strict=True)))
        print(
            f"| {count} | {middle.prompt_tokens:,.0f} | {middle.answer_tokens:.0f} | "
            f"{middle.alone:.2f} | {middle.inline:.2f} | {middle.background:.2f} | "
            f"{middle.later:.2f} |"
        )


if __name__ == "__main__":
    main()
