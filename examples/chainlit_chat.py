"""A chat about your files: answers are streamed at once, and where they come from follows.

make chainlit-chat

LlamaIndex retrieves from a Chroma store on the disk, the embedded model answers. An answer becomes
an <attribot-answer>: a click on a source shows the text that made the model say a sentence, opens
its file at that place, or has the model answer without it. `chat_files` says how to have it about
files of yours, and with another model: make chainlit-chat CHAT_FOLDER=path/to/folder
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any
from urllib.parse import urlsplit

import chainlit as cl
import chat_files as shared
from chainlit.config import config
from chainlit.server import app
from fastapi import Query
from llama_index.core import VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.llms import LLM
from llama_index.core.memory import Memory
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.vector_stores.chroma import ChromaVectorStore
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocketClose
from transformers import LogitsProcessorList

from attribot_checks import ValueChecks
from attribot_rag import AttributionError, load_model
from attribot_rag.display import element_script, escape_markdown, summary_data, without_data
from attribot_rag.model import DEFAULT_MODEL

HOSTS = ["localhost", "127.0.0.1"]  # add the name under which others are to reach the chat
POLICY = (  # Chainlit compiles elements of its own in the page, which takes 'unsafe-eval'
    "default-src 'self' 'unsafe-inline' data: blob:; connect-src 'self' ws: wss:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'"
)
ELEMENT = """
import { useEffect, useRef } from "react";
export default function AttribotAnswer() {
  const answer = useRef(null);
  useEffect(() => {
    const other = async (indices) => {
      const payload = { run_id: props.run_id, indices };
      const { response } = await callAction({ name: "answer_without", payload });
      if (response.error) throw new Error(response.error);
      return response.answer;
    };
    const asked = ({ detail }) => detail.respond(other(detail.documents));
    answer.current.addEventListener("attribot-without", asked);
    const found = async (text) => {
      const { response } = await callAction({ name: "search", payload: { text } });
      return response;
    };
    const sought = ({ detail }) => detail.respond(found(detail.text));
    answer.current.addEventListener("attribot-search", sought);
  }, []);
  const place = `/documents/${props.run_id}/{sentence}/{index}#cited`;
  return <attribot-answer ref={answer} data={props.data} open-at={place}
    stopped={props.stopped} no-question="" searches="" answers-without="" />;
}
"""

local = load_model(DEFAULT_MODEL if shared.API else shared.MODEL)
postprocessor = AttributionPostprocessor(
    reader=local if shared.API else None, mode="background", annotator=ValueChecks()
)
kept = shared.Store("chainlit-chat")
index = VectorStoreIndex.from_vector_store(
    ChromaVectorStore(chroma_collection=kept.collection),
    embed_model=HuggingFaceEmbedding(shared.EMBEDDINGS),
)
under_way: set[asyncio.Task] = set()
one_at_a_time = asyncio.Lock()  # for files that are added
config.ui.default_theme = "system"  # the reader's own
config.features.edit_message = False  # the model would still remember what was edited
config.ui.custom_js, config.ui.custom_css = "/attribot-answer.js", "/attribot-answer.css"


def answering(stopped: Event) -> LLM:
    if shared.API:
        from llama_index.llms.openai_like import OpenAILike  # install it: it takes an older openai

        class Stoppable(OpenAILike):
            def stream_chat(self, messages, **settings):
                for piece in super().stream_chat(messages, **settings):
                    yield piece
                    if stopped.is_set():
                        return

        return Stoppable(
            model=shared.MODEL, api_base=shared.API, api_key=shared.API_KEY, is_chat_model=True
        )
    ending = LogitsProcessorList([shared.EndWhen(stopped, local.tokenizer.eos_token_id)])
    return HuggingFaceLLM(
        model=local.model,
        tokenizer=local.tokenizer,
        is_chat_model=True,
        max_new_tokens=160,
        generate_kwargs={"do_sample": False, "logits_processor": ending},
    )


def engine(memory: Memory, stopped: Event) -> ContextChatEngine:
    """For one answer of a conversation, which ends when `stopped` is set."""
    return ContextChatEngine.from_defaults(
        retriever=index.as_retriever(similarity_top_k=shared.RETRIEVED),
        llm=answering(stopped),
        memory=memory,
        node_postprocessors=[postprocessor],
        context_template=f"{{context_str}}\n\n{shared.INSTRUCTION}",
    )


def insert(passages: list[shared.Passage]) -> None:
    unseen = {f"excluded_{reader}_metadata_keys": [*passages[0][1]] for reader in ("llm", "embed")}
    index.insert_nodes([TextNode(text=text, metadata=own, **unseen) for text, own in passages])


class OwnPageOnly:
    """Pages of other sites can't ask or add, and this one loads nothing from elsewhere.

    Neither what a document or an answer names, nor Chainlit's fonts.
    """

    def __init__(self, app) -> None:
        self.app = app

    async def __call__(self, scope, receive, send) -> None:
        async def sending(message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Content-Security-Policy"] = POLICY
            await send(message)

        app, headers = self.app, Headers(raw=scope.get("headers", []))
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            refusal = PlainTextResponse("another site's page can't do this", status_code=403)
            app = WebSocketClose() if scope["type"] == "websocket" else refusal
        await app(scope, receive, sending)


@app.get("/documents/{run_id}/{sentence}/{index}")
def document_page(run_id: str, sentence: int, index: int) -> Response:
    return kept.page(postprocessor.results.wait, run_id, index, sentence)


@app.get("/passages/{passage_id}")
def passage_page(
    passage_id: str, sentence: Annotated[str, Query(max_length=shared.LONGEST)] = ""
) -> Response:
    return kept.passage_page(passage_id, sentence)


@app.get("/attribot-answer.js")
def script() -> Response:
    return Response(element_script(), media_type="text/javascript")


@app.get("/attribot-answer.css")
def style() -> Response:
    return Response(shared.STYLE, media_type="text/css")


@app.get("/public/elements/AttribotAnswer.jsx")
def element() -> Response:
    return Response(ELEMENT, media_type="text/javascript")


for _ in range(5):  # before Chainlit's own page, at every path
    app.router.routes.insert(0, app.router.routes.pop())
app.add_middleware(OwnPageOnly)
app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)


@cl.on_app_startup
def begin_to_serve() -> None:
    kept.read_folder(insert)
    if kept.collection.count() and not shared.API:
        Thread(target=warm_up, daemon=True).start()


def warm_up() -> None:
    """One attribution while the page loads, so that the first question is no slower."""
    stopped = Event()
    response = engine(Memory.from_defaults(token_limit=1024), stopped).stream_chat(shared.OPENING)
    for _ in response.response_gen:
        stopped.set()  # one piece is enough
    postprocessor.results.wait(response.metadata["attribution"]["run_id"])


@cl.set_starters
async def starters() -> list[cl.Starter]:
    """Questions to begin with, where the files are the example's own."""
    return [cl.Starter(label=question, message=question) for question in shared.EXAMPLES]


@cl.on_chat_start
async def begin() -> None:
    cl.user_session.set("memory", Memory.from_defaults(token_limit=1024))
    hints = [*filter(None, [kept.not_read(), shared.HINT])]
    if not await starters():
        suffixes = ", ".join(shared.SUFFIXES)
        hints.insert(0, f"Ask about the files in {shared.FOLDER.name}, or add some ({suffixes}).")
    if hints:
        await cl.Message(escape_markdown(" ".join(hints)), type="system_message").send()


@cl.on_message
async def reply(message: cl.Message) -> None:
    if message.elements:
        await receive(message.elements)
    if message.elements and not message.content.strip():
        return
    if refusal := kept.refusal(message.content):
        await cl.Message(escape_markdown(refusal)).send()
        return
    if before := cl.user_session.get("answering"):
        await asyncio.wait([before])  # it was stopped, but may not have ended
    stopped = Event()
    answering = asyncio.create_task(answer(message.content, stopped))
    cl.user_session.set("answering", answering)
    cl.user_session.set("stopped", stopped)
    try:
        await asyncio.shield(answering)
    finally:
        stopped.set()  # somebody pressed stop, or it has ended


@cl.on_chat_end
def end() -> None:
    """The page was closed, or a new chat begun: nobody reads the rest."""
    if stopped := cl.user_session.get("stopped"):
        stopped.set()


async def receive(elements: list[cl.element.Element]) -> None:
    """Add uploaded files, and say what came of each, with a way to remove it."""
    outcomes, removing = [], []
    for element in elements:
        name = element.name
        try:
            async with one_at_a_time:
                outcome = await asyncio.to_thread(kept.add, Path(element.path), name, insert)
            removing.append(cl.Action("remove", {"name": name}, f"Remove {name}"))
        except ValueError as error:
            outcome = str(error)
        outcomes.append(escape_markdown(outcome))
    await cl.Message("\n\n".join(outcomes), actions=removing).send()


@cl.action_callback("remove")
async def remove(action: cl.Action) -> None:
    """Forget an uploaded file."""
    async with one_at_a_time:
        outcome = await asyncio.to_thread(kept.remove, action.payload["name"])
    await action.remove()
    await cl.Message(escape_markdown(outcome)).send()


@cl.action_callback("search")
async def search(action: cl.Action) -> list[dict[str, Any]]:
    """Passages of all files that have the words of a sentence."""
    text = action.payload["text"][: shared.LONGEST]
    retriever = index.as_retriever(similarity_top_k=shared.RETRIEVED)
    found = await asyncio.to_thread(retriever.retrieve, text)
    hits = [(each.node_id, each.text, each.metadata) for each in found]
    return shared.having(text, hits)


async def answer(question: str, stopped: Event) -> None:
    """Stream the answer; what it cites follows when it is known, also if it was stopped."""
    if shared.IS_TINY:  # which repeats an earlier answer
        cl.user_session.set("memory", Memory.from_defaults(token_limit=1024))
    memory = cl.user_session.get("memory")
    before = await asyncio.to_thread(memory.get_all)
    response = await asyncio.to_thread(engine(memory, stopped).stream_chat, question)
    message, text = cl.Message(""), ""
    async for piece in pieces_of(response):
        text += piece
        await message.stream_token(escape_markdown(text), is_sequence=True)
    if shared.repeats(question, text):  # or stopped before it began: as if nothing had been asked
        await asyncio.to_thread(memory.set, before)
        if text.strip():
            message.content = "Nothing was answered."
            await message.update()
        return
    await message.send()
    citing = asyncio.create_task(cite(response, message, stopped.is_set()))
    under_way.add(citing)
    citing.add_done_callback(under_way.discard)


async def pieces_of(response: StreamingAgentChatResponse) -> AsyncIterator[str]:
    """As `response_gen`, which keeps a processor busy while it waits for the next piece."""
    while not response.is_done or not response.queue.empty():
        if response.exception is not None:
            raise response.exception
        if response.queue.empty():
            await asyncio.sleep(0.01)
        else:
            yield response.queue.get()


async def cite(response: StreamingAgentChatResponse, message: cl.Message, stopped: bool) -> None:
    """Put the element in place of the answer's text; it fills in sentence by sentence."""
    summary = response.metadata["attribution"]
    run_id, data = summary["run_id"], summary_data(summary, answer=response.response)
    responses = cl.user_session.get("responses") or {}
    cl.user_session.set("responses", {**responses, run_id: response})
    runs = postprocessor.results.follow(run_id)
    while data is not None:
        props = {"run_id": run_id, "data": json.dumps(data), "stopped": "" if stopped else None}
        element = cl.CustomElement(id=run_id, name="AttribotAnswer", props=props, display="inline")
        message.content, message.elements = "", [element]
        await message.update()
        run = await asyncio.to_thread(next, runs, None)
        data = run and shared.element_data(run, run.question or "")


@cl.action_callback("answer_without")
async def answer_without(action: cl.Action) -> dict[str, Any]:
    """The model's answer without some documents."""
    response = cl.user_session.get("responses")[action.payload["run_id"]]
    try:
        other = await asyncio.to_thread(
            postprocessor.answer_without, response, *action.payload["indices"]
        )
    except AttributionError as error:
        return {"error": str(error)}
    run = postprocessor.results.wait(action.payload["run_id"])
    if run.attribution is None:
        return {"answer": other.response}
    return {"answer": without_data(run.attribution, other, question=run.question or "")}
