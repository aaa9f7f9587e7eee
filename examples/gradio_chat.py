"""A chat about your files: answers are streamed at once, and where they come from follows.

make chat

LangChain retrieves from a Chroma store on the disk, the embedded model answers. An answer becomes
an <attribot-answer>: a click on a source shows the text that made the model say a sentence, opens
its file at that place, or has the model answer without it. `chat_files` says how to have it about
files of yours, and with another model: make chat CHAT_FOLDER=path/to/folder
"""

import html
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any
from uuid import uuid4

import chat_files as shared
import gradio as gr
from fastapi import HTTPException, Query
from fastapi import Path as PathParameter
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_huggingface import ChatHuggingFace, HuggingFaceEmbeddings, HuggingFacePipeline
from langchain_openai import ChatOpenAI
from starlette.responses import Response
from transformers import LogitsProcessorList, pipeline

from attribot_checks import ValueChecks
from attribot_rag import AttributionError, load_model
from attribot_rag.display import element_script, summary_data, without_data
from attribot_rag.model import DEFAULT_MODEL
from langchain_attribot import AttributionCallbackHandler

TITLE = "Ask about your files"
EARLIER = 0 if shared.IS_TINY else 2  # answers that the model is shown; a tiny one repeats them
CLIP = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' "
    "stroke='%23000' stroke-width='2' stroke-linecap='round'%3E%3Cpath d='m21 11-9 9a5 5 0 0 1-7-7"
    "l9-9a3.4 3.4 0 0 1 5 5l-9 9a1.7 1.7 0 0 1-2.5-2.5l8-8'/%3E%3C/svg%3E"
)
ROOM = f':root {{ --clip: url("{CLIP}"); }}'
ROOM += """
.message:has(attribot-answer) { overflow: visible !important; }  /* the card sticks to the chat */
button.lg.secondary { font-weight: 400; white-space: nowrap; }
button.lg.secondary::before {  /* a paper clip */
  content: ""; width: 1.1em; height: 1.1em; margin-inline-end: 0.4em; background: currentColor;
  mask: center / contain no-repeat var(--clip);
}
#files { border: 0; padding: 0; background: none; }
#files > button { width: auto; gap: 6px; color: var(--body-text-color); font-size: 14px; }
#files button.sm { white-space: nowrap; }
.panel-wrap:has(.placeholder-content) { height: 100%; }
.placeholder-content { padding: 24px; text-align: center; }
@media (max-width: 760px) {
  .main.fillable { padding: 8px !important; }
  .panel-wrap:has(attribot-answer) { margin-top: 26px; height: calc(100% - 26px); }  /* the bin */
  button.lg.secondary {  /* its words are out of sight, not out of hearing */
    width: 48px; min-width: 48px !important; padding-inline: 15px; overflow: hidden;
    flex-wrap: nowrap; justify-content: flex-start;
  }
  button.lg.secondary::before { flex: none; width: 18px; height: 18px; margin-inline-end: 24px; }
  .message-row:has(attribot-answer), .bot:has(attribot-answer) { padding: 4px !important; }
}
"""
SCRIPT = """
document.addEventListener("attribot-without", ({ target, detail }) => {
  const url = `/without/${target.dataset.run}/${detail.documents}`;
  const read = async (response) => {
    const { answer, detail } = await response.json();
    if (!response.ok) throw new Error(detail);
    return answer;
  };
  detail.respond(fetch(url, { method: "POST" }).then(read));
});
document.addEventListener("attribot-search", ({ detail }) => {
  const url = `/search?text=${encodeURIComponent(detail.text.slice(0, 1000))}`;
  detail.respond(fetch(url).then((response) => response.json()));
});
"""

TO_THE_QUESTION = """() => {
  const talk = document.querySelector(".panel-wrap");
  const asked = () => document.querySelectorAll("[data-testid=user]");
  const before = asked().length;
  const added = new MutationObserver(() => {
    if (asked().length <= before) return;
    added.disconnect();
    talk.scrollTop = talk.scrollHeight;  // Gradio follows only who is at the end
  });
  if (talk) added.observe(talk, { childList: true, subtree: true });
}"""

local = load_model(DEFAULT_MODEL if shared.API else shared.MODEL)
if shared.API:
    chat = ChatOpenAI(model=shared.MODEL, base_url=shared.API, api_key=shared.API_KEY)
else:
    generating = pipeline(
        "text-generation",
        model=local.model,
        tokenizer=local.tokenizer,
        max_new_tokens=160,
        do_sample=False,
        return_full_text=False,
    )
    chat = ChatHuggingFace(llm=HuggingFacePipeline(pipeline=generating), tokenizer=local.tokenizer)
prompt = ChatPromptTemplate.from_messages(
    [MessagesPlaceholder("history"), ("human", f"{{context}}\n\n{shared.INSTRUCTION} {{question}}")]
)
handler = AttributionCallbackHandler(
    chat, reader=local if shared.API else None, mode="background", annotator=ValueChecks()
)

kept = shared.Store("gradio-chat")
embeddings = HuggingFaceEmbeddings(model_name=shared.EMBEDDINGS)
store = Chroma(kept.collection.name, embeddings, client=kept.client)


@dataclass
class Turn:
    """A question and its answer so far; `element` is <attribot-answer>, as HTML."""

    question: str
    answer: str = ""
    element: str = ""
    ended: bool = False
    cited: bool = False
    run_id: str = field(default_factory=lambda: str(uuid4()))
    stopped: Event = field(default_factory=Event)
    interrupted: bool = False


def insert(passages: list[shared.Passage]) -> None:
    store.add_documents([Document(text, metadata=metadata) for text, metadata in passages])


def answer(turn: Turn, earlier: list[Turn]) -> Iterator[str]:
    """Pieces of the answer, until it ends or is stopped."""
    try:
        passages = store.similarity_search(turn.question, k=shared.RETRIEVED)
        answered = [before for before in earlier if before.answer]
        history: list[tuple[str, str]] = []
        for before in answered[-EARLIER:] if EARLIER else ():
            history += [("human", before.question), ("ai", before.answer)]
        inputs = {
            "history": history,
            "context": "\n\n".join(passage.page_content for passage in passages),
            "question": turn.question,
            "documents": passages,
        }
        ending = LogitsProcessorList([shared.EndWhen(turn.stopped, local.tokenizer.eos_token_id)])
        model = chat if shared.API else chat.bind(pipeline_kwargs={"logits_processor": ending})
        config = {"callbacks": [handler], "run_id": turn.run_id}
        for piece in (prompt | model).stream(inputs, config=config):
            yield piece.content
            if shared.API and turn.stopped.is_set():
                break
    finally:
        turn.interrupted = turn.stopped.is_set()
        turn.stopped.set()  # the page was closed: nobody reads the rest
        turn.ended = True


def as_it_is(text: str) -> str:
    """The text as HTML, whatever HTML it looks like."""
    return html.escape(text, quote=False)


def shown(turns: list[Turn], *, scrolls: bool = True) -> dict:
    """The conversation, which `scrolls` to its end unless the reader may be elsewhere."""
    messages = []
    for turn in turns:
        messages.append({"role": "user", "content": as_it_is(turn.question)})
        # The same element from the first word on: nothing vanishes when the answer has ended.
        content = gr.HTML(turn.element) if turn.element else "Nothing was answered."
        messages.append({"role": "assistant", "content": content})
    return gr.update(value=messages, autoscroll=scrolls)


def ask(question: str, turns: list[Turn]):
    """The question becomes a turn, and its answer is shown piece by piece."""
    busy = "An answer is being written; stop it, or wait for its end."
    if refusal := busy if turns and not turns[-1].ended else kept.refusal(question):
        gr.Warning(refusal)
        yield gr.skip(), gr.skip(), gr.skip()
        return
    turn = Turn(question.strip())
    turn.element = element(turn, shared.written_data("", turn.question))
    turns.append(turn)
    yield gr.Textbox("", submit_btn=False, stop_btn="Stop"), shown(turns), turns
    for piece in answer(turn, turns[:-1]):
        turn.answer += piece
        turn.element = element(turn, shared.written_data(turn.answer, turn.question))
        yield gr.skip(), shown(turns), gr.skip()
    if shared.repeats(turn.question, turn.answer):
        turn.answer = turn.element = ""
    # which is nothing if the chat was cleared
    yield gr.Textbox(submit_btn="Ask", stop_btn=False), shown(turns), gr.skip()


def stop(turns: list[Turn]) -> None:
    if turns:
        turns[-1].stopped.set()


def clear(turns: list[Turn]) -> None:
    stop(turns)
    turns.clear()


def cite(turns: list[Turn]):
    """Answers that ended fill in with their citations, sentence by sentence."""
    for turn in [turn for turn in turns if turn.ended and turn.answer and not turn.cited]:
        turn.cited = True
        for data in data_of(turn):
            turn.element = element(turn, data)
            yield shown(turns, scrolls=False)
    yield gr.skip()


def data_of(turn: Turn) -> Iterator[dict[str, Any]]:
    """The element's data at first, and with each sentence that is judged."""
    yield summary_data({"status": "pending"}, answer=turn.answer, question=turn.question)
    try:
        for run in handler.results.follow(turn.run_id):
            yield shared.element_data(run, turn.question)
    except AttributionError as error:
        summary = {"error": {"message": str(error)}}
        yield summary_data(summary, answer=turn.answer, question=turn.question)


def element(turn: Turn, data: dict[str, Any]) -> str:
    data = {**data, "searched": {"files": kept.files()}}
    place = f"/documents/{turn.run_id}/{{sentence}}/{{index}}#cited"
    stopped = "stopped" if turn.interrupted else ""
    ahead = "answers-without" if shared.API else "answers-without=ahead"  # a call may cost
    return f"""<attribot-answer data="{html.escape(json.dumps(data))}" data-run="{turn.run_id}"
        open-at="{place}" no-question searches {ahead} {stopped}></attribot-answer>"""


def answer_without(
    run_id: str, indices: Annotated[str, PathParameter(pattern=r"^\d+(,\d+)*$")]
) -> dict[str, Any]:
    """The model's answer without some documents, with what the others say of it."""
    try:
        other = handler.answer_without(run_id, *map(int, indices.split(",")))
        run = handler.result(run_id)
        if run.attribution is None:
            return {"answer": other.response}
        data = without_data(run.attribution, other, question=run.question or "")
        return {"answer": data}
    except AttributionError as error:
        raise HTTPException(422, str(error)) from error


def search(text: Annotated[str, Query(max_length=shared.LONGEST)]) -> list[dict[str, Any]]:
    """Passages of all files that have the words of a sentence."""
    found = store.similarity_search(text, k=shared.RETRIEVED)
    hits = [(str(each.id), each.page_content, each.metadata) for each in found]
    return shared.having(text, hits)


def document_page(run_id: str, sentence: int, index: int) -> Response:
    return kept.page(handler.result, run_id, index, sentence)


def passage_page(
    passage_id: str, sentence: Annotated[str, Query(max_length=shared.LONGEST)] = ""
) -> Response:
    return kept.passage_page(passage_id, sentence)


def upload(paths: list[str], added: list[str]) -> list[str]:
    """Add files, and give the names of all that were added in this session."""
    for path in map(Path, paths):
        try:
            gr.Info(kept.add(path, path.name, insert))
            added = [*(name for name in added if name != path.name), path.name]
        except ValueError as error:
            gr.Warning(str(error))
    return added


def remove(name: str, added: list[str]) -> list[str]:
    gr.Info(kept.remove(name))
    return [other for other in added if other != name]


def begun() -> tuple[gr.Chatbot, gr.Accordion, str]:
    """The empty chat: the files, and questions to begin with where these are the example's own."""
    files = [*map(as_it_is, kept.names())]
    names, label = ", ".join(files), f"{len(files)} file{'s' * (len(files) != 1)}"
    examples = [{"text": question} for question in shared.EXAMPLES] or None
    about = f"Ask about {names or 'files that you add'}."
    placeholder = "\n\n".join([about, as_it_is(kept.not_read()), shared.HINT])
    begin = gr.Chatbot(placeholder=placeholder, examples=examples)
    return begin, gr.Accordion(label), " · ".join(files)


def choose(example: gr.SelectData) -> str:
    return example.value["text"]


FONT = ("system-ui", "sans-serif")  # which has every sign, and loads nothing
theme = gr.themes.Default(primary_hue="blue", font=FONT, font_mono=("ui-monospace", "monospace"))
theme = theme.set(button_primary_background_fill="*primary_700")
HOUR = 3600
with gr.Blocks(
    title=TITLE,
    fill_width=True,
    fill_height=True,
    analytics_enabled=False,
    delete_cache=(HOUR, HOUR),
) as app:
    conversation = gr.State([])
    uploaded = gr.State([])  # names of files
    gr.HTML(f"<h1>{TITLE}</h1>")
    talk = gr.Chatbot(
        label="Conversation",
        show_label=False,
        height="70vh",
        layout="panel",
        render_markdown=False,
        latex_delimiters=[],
        buttons=[],
    )
    with gr.Row():
        question = gr.Textbox(
            label="Question",
            show_label=False,
            placeholder="Question",
            autofocus=True,
            submit_btn="Ask",
            min_width=0,
            scale=1,
        )
        suffixes = list(shared.SUFFIXES)
        adding = gr.UploadButton(
            "Add files", file_count="multiple", file_types=suffixes, scale=0, min_width=140
        )

    with gr.Accordion("Files", open=False, elem_id="files") as listing:
        listed = gr.HTML()

        @gr.render(uploaded, show_progress="hidden")
        def list_uploaded(names: list[str]) -> None:
            with gr.Row():
                for name in names:
                    removing = gr.Button(f"Remove {name}", size="sm", scale=0)
                    removed = removing.click(partial(remove, name), uploaded, uploaded)
                    removed.then(begun, None, [talk, listing, listed])

    streamed = gr.on(
        question.submit,
        ask,
        [question, conversation],
        [question, talk, conversation],  # a conversation that is given back can expire
        trigger_mode="multiple",
        concurrency_limit=4,
    )
    question.submit(None, js=TO_THE_QUESTION)
    streamed.then(cite, conversation, talk, trigger_mode="multiple", concurrency_limit=None)
    question.stop(stop, conversation, queue=False)
    added = adding.upload(upload, [adding, uploaded], uploaded)
    added.then(begun, None, [talk, listing, listed])
    app.load(begun, None, [talk, listing, listed], show_progress="hidden")
    talk.example_select(choose, None, question)
    talk.clear(clear, conversation)


def warm_up() -> None:
    """One attribution while the page loads, so that the first question is no slower."""
    turn = Turn(shared.OPENING)
    for _ in answer(turn, []):
        turn.stopped.set()  # one piece is enough
    for _ in data_of(turn):
        pass


if __name__ == "__main__":
    kept.read_folder(insert)
    if kept.collection.count() and not shared.API:
        Thread(target=warm_up, daemon=True).start()
    server, _, _ = app.launch(
        theme=theme,
        head=f"<style>{shared.STYLE}{ROOM}</style><script>{element_script()}{SCRIPT}</script>",
        max_file_size="20mb",
        footer_links=[],
        prevent_thread_lock=True,
    )
    server.add_api_route("/documents/{run_id}/{sentence}/{index}", document_page)
    server.add_api_route("/passages/{passage_id}", passage_page)
    server.add_api_route("/search", search)
    server.add_api_route("/without/{run_id}/{indices}", answer_without, methods=["POST"])
    app.block_thread()
