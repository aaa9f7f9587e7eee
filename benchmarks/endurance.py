"""Whether memory stays flat over many attributions in one process.

    python -m benchmarks.endurance library --count 10000
    python -m benchmarks.endurance langchain llama_index --count 2000
    python -m benchmarks.endurance log --count 2000

A tiny model of random weights answers and is attributed. In between, as in a service, the model is
moved to another type and back, its adapter is switched, threads start and leave, and garbage is
collected. Growth is from the end of the first tenth to the end: of the process's memory (RSS) and
of the objects that Python's garbage collector knows. At the end the model has to be freed.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import multiprocessing
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.functional import set_adapter
from support.scripted_generation import DOCUMENTS, QUESTION, generate, rendered
from support.tiny_models import byte_level, endless, smollm2_tokenizer, with_tokenizer

from attribot_batch import run_batch
from attribot_rag import Attributor
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import Answer, AttributionService
from benchmarks.experiment.setting import hardware

_ADAPTERS = ("first", "second")
_EXACT: dict[str, Any] = {"method": "leave_one_out", "max_results": 16}
_PATIENCE = 3_600.0  # seconds for one attribution in the background

Attribute = Callable[[int], None]
Close = Callable[[], None]


class Size(NamedTuple):
    """Of the process: bytes of memory, and what Python's garbage collector and threading know."""

    memory: int
    objects: int
    threads: int

    @classmethod
    def now(cls) -> Size:
        gc.collect()
        memory = psutil.Process().memory_info().rss
        return cls(memory, len(gc.get_objects()), threading.active_count())


class Endured(NamedTuple):
    """The sizes after the first tenth and at the end, and whether the model was freed then."""

    attributions: int
    first: Size
    last: Size
    is_freed: bool

    @property
    def memory_growth(self) -> float:
        """A share, 0.02 for 2 %."""
        return self.last.memory / self.first.memory - 1

    @property
    def object_growth(self) -> float:
        return self.last.objects / self.first.objects - 1


def adapted_model() -> LocalModel:
    """A model that nothing else uses, with two adapters."""
    local = endless(copy.deepcopy(byte_level().tokenizer))
    for name in _ADAPTERS:
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        inject_adapter_in_model(config, local.model, adapter_name=name)
    set_adapter(local.model, _ADAPTERS[0])
    return local


def library(local: LocalModel) -> tuple[Attribute, Close]:
    service = AttributionService(local, **_EXACT)
    ids = torch.tensor([local.encode_prompt(rendered(local))])

    def attribute(number: int) -> None:
        output = generate(local, ids, max_new_tokens=8, do_sample=False)
        answer = local.decode(output[0, ids.shape[1] :].tolist(), skip_special_tokens=True)
        name = f"run {number} of thread {threading.get_ident()}"
        observed = Answer(answer, DOCUMENTS, [QUESTION])
        run = service.attribute(name, name, observed, background=number % 2 == 0)
        assert service.store.wait(run.run_id, _PATIENCE).attribution is not None

    return attribute, service.close


def langchain(local: LocalModel) -> tuple[Attribute, Close]:
    from langchain_core.documents import Document
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough
    from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
    from transformers import pipeline

    from langchain_attribot import AttributionCallbackHandler

    make: Any = pipeline  # which is overloaded for tasks of all kinds
    options = {"max_new_tokens": 8, "do_sample": False, "return_full_text": False}
    answers = make("text-generation", model=local.model, tokenizer=local.tokenizer, **options)
    chat = ChatHuggingFace(llm=HuggingFacePipeline(pipeline=answers), tokenizer=local.tokenizer)
    handler = AttributionCallbackHandler(chat, **_EXACT)
    documents = [Document(page_content=text, id=str(i)) for i, text in enumerate(DOCUMENTS)]
    retriever: Any = RunnableLambda(lambda _: documents)
    passages = retriever | (lambda texts: "\n\n".join(text.page_content for text in texts))
    prompt = ChatPromptTemplate.from_template("{passages}\n\nAnswer briefly: {question}")
    chain = {"passages": passages, "question": RunnablePassthrough()} | prompt | chat

    def attribute(number: int) -> None:
        message = chain.invoke(QUESTION, {"callbacks": [handler]})
        assert message.response_metadata["attribution"]["status"] == "complete"

    return attribute, handler.close


def llama_index(local: LocalModel) -> tuple[Attribute, Close]:
    from llama_index.core import SummaryIndex
    from llama_index.core.schema import TextNode
    from llama_index.llms.huggingface import HuggingFaceLLM
    from llama_index.postprocessor.attribot import AttributionPostprocessor

    llm = HuggingFaceLLM(
        model=local.model,
        tokenizer=local.tokenizer,
        context_window=2048,
        max_new_tokens=8,
        is_chat_model=True,
        generate_kwargs={"do_sample": False},
    )
    index = SummaryIndex([TextNode(text=text) for text in DOCUMENTS])
    postprocessor = AttributionPostprocessor(**_EXACT)
    engine = index.as_query_engine(llm=llm, node_postprocessors=[postprocessor])

    def attribute(number: int) -> None:
        metadata = engine.query(QUESTION).metadata or {}
        assert metadata["attribution"]["status"] == "complete"

    return attribute, postprocessor.close


WAYS = {"library": library, "langchain": langchain, "llama_index": llama_index}


def disturb(model: Any, attribute: Attribute, number: int) -> int:
    """One of the things that happen to a model in use; how many attributions that were."""
    if number % 4 == 0:
        model.to(torch.float64)
        model.to(torch.float32)
    elif number % 4 == 1:
        set_adapter(model, _ADAPTERS[number // 4 % 2])
    elif number % 4 == 2:
        threads = [threading.Thread(target=attribute, args=[which]) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(threads)
    else:
        gc.collect()
    return 0


def endure(way: str, count: int, *, every: int = 10) -> Endured:
    """Attribute so many answers, with a disturbance after `every` of them."""
    local = adapted_model()
    attribute, close = WAYS[way](local)
    done, sizes = 0, list[Size]()
    while done < count:
        attribute(done)
        done += 1
        if done % every == 0:
            done += disturb(local.model, attribute, done // every)
        if done >= count * (len(sizes) + 1) // 10:
            sizes.append(Size.now())
            print(f"{way}, {done:,}: {sizes[-1]}", file=sys.stderr, flush=True)
    close()
    model = weakref.ref(local.model)
    del local, attribute, close
    gc.collect()
    return Endured(done, sizes[0], sizes[-1], model() is None)


def record(index: int) -> dict[str, object]:
    """A record like no other, of one of forty lengths."""
    rest = " It rained." * (index % 40)
    return {
        "id": index,
        "question": f"How many came in year {index}?",
        "documents": [{"id": "a", "text": f"In year {index} seven came.{rest}"}, "Eight left."],
        "response": "Seven.",
    }


def endure_log(num_records: int) -> None:
    """Attribute a log with no two records alike; prints the memory after each tenth of it."""
    model = with_tokenizer(smollm2_tokenizer())
    attributor = Attributor(model, method="leave_one_out", progress=False)
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "log.jsonl", Path(folder) / "out"
        source.write_text("".join(json.dumps(record(i)) + "\n" for i in range(num_records)))
        results = output / "results.jsonl"
        thread = threading.Thread(target=run_batch, args=(attributor, source, output))
        thread.start()
        tenths = 0
        while thread.is_alive():
            thread.join(0.1)
            num_done = results.read_bytes().count(b"\n") if results.exists() else 0
            if 10 * num_done >= num_records * (tenths + 1) or not thread.is_alive():
                tenths += 1
                size = psutil.Process().memory_info().rss / 2**20
                print(f"after {num_done:,} records: {size:.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="+", choices=[*WAYS, "log"])
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    print(hardware())
    for way in options.ways:
        if way == "log":
            endure_log(options.count)
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            endured = pool.apply(endure, (way, options.count))
        print(
            f"{way}: {endured.attributions:,} attributions, {endured.last.memory / 1e6:.0f} MB, "
            f"memory {endured.memory_growth:+.2%}, objects {endured.object_growth:+.2%}, threads "
            f"{endured.last.threads - endured.first.threads:+}, model freed: {endured.is_freed}",
            flush=True,
        )


if __name__ == "__main__":
    main()
