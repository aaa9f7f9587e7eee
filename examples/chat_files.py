"""What both chats share: the model, the files, and when an answer ends or counts as none."""

import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from threading import Event

from transformers import LogitsProcessor

from attribot_rag import Attribution, AttributionError
from attribot_rag.corpus.chunks import read_text
from attribot_rag.corpus.pdf import PdfText, read_pdf
from attribot_rag.display import render_document
from attribot_rag.model import DEFAULT_MODEL

API = os.environ.get("CHAT_API")
MODEL = os.environ.get("CHAT_MODEL") or DEFAULT_MODEL
IS_TINY = MODEL == DEFAULT_MODEL
if API and IS_TINY:
    sys.exit("name the model that CHAT_API has: CHAT_MODEL=…")
HINT = "Tiny demo model: expect wrong answers. CHAT_MODEL=… takes yours." if IS_TINY else ""
OWN = Path(__file__).with_name("corpus")
FOLDER = Path(os.environ.get("CHAT_FOLDER") or OWN).resolve()
COLLECTION = f"chat-{hashlib.sha256(str(FOLDER).encode()).hexdigest()[:16]}"  # each has its own
QUESTIONS = ("How high is the lighthouse?", "How many passengers does the ferry Kittiwake carry?")
EXAMPLES = QUESTIONS if OWN.resolve() == FOLDER else ()  # to begin with
SUFFIXES = (".md", ".txt", ".pdf")
LONGEST = 2000  # characters of a question


class EndWhen(LogitsProcessor):
    """Ends the answer when somebody stops it. (LangChain takes no stopping criteria.)"""

    def __init__(self, stopped: Event, end: int) -> None:
        self.stopped = stopped
        self.end = end

    def __call__(self, input_ids, scores):
        if self.stopped.is_set():
            scores = scores.new_full(scores.shape, float("-inf"))
            scores[:, self.end] = 0.0
        return scores


class Store:
    """The folder with passages and uploaded files: CHAT_STORE, or one in the user's cache."""

    def __init__(self, chat: str) -> None:
        cache = Path.home() / ".cache" / "attribot-rag" / chat
        self.folder = Path(os.environ.get("CHAT_STORE") or cache)
        self.uploads = self.folder / "uploads"
        # what the files say is their owner's
        self.uploads.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, path: Path, name: str) -> None:
        """A citation opens an uploaded file there."""
        copyfile(path, self.uploads / Path(name).name)

    def page(self, attribution: Attribution | None, index: int, sentence: int) -> str:
        """The file of a retrieved document, opened at what a sentence cites.

        Raises LookupError or AttributionError if it, or what was cited, is gone.
        """
        if attribution is None:
            raise LookupError(index)
        metadata = attribution.documents[index].metadata
        folder = FOLDER if metadata["origin"] == "folder" else self.uploads
        file = folder / Path(metadata.get("source") or metadata["file_name"]).name
        return render_document(attribution, index, file, sentence=sentence)


def read(path: Path, name: str) -> tuple[str, PdfText | None]:
    """A file's text. Raises ValueError if it can't be read."""
    if not name.lower().endswith(SUFFIXES):
        raise ValueError(f"{name} can't be added, only {', '.join(SUFFIXES)} files can")
    try:
        pdf = read_pdf(path) if name.lower().endswith(".pdf") else None
        return (pdf.text if pdf else read_text(path)), pdf
    except AttributionError as error:
        raise ValueError(str(error).replace(str(path), name)) from error


def read_folder(add: Callable[[Path], int]) -> None:
    """Add the folder's files, and print which can't be read."""
    if not FOLDER.is_dir():
        sys.exit(f"{FOLDER} is not a folder; name one with {', '.join(SUFFIXES)} files")
    for path in sorted(path for path in FOLDER.iterdir() if path.suffix.lower() in SUFFIXES):
        try:
            add(path)
        except ValueError as error:
            print(error)


def reason_not_to_answer(question: str, has_passages: bool) -> str:
    """'' if there is none."""
    if len(question) > LONGEST:
        return f"The question has {len(question)} characters; please ask with at most {LONGEST}."
    if not has_passages:
        return f"There is nothing to answer from; add a {', '.join(SUFFIXES)} file."
    return ""


def added(name: str, passages: int) -> str:
    return f"{name}: {passages} passage{'s' * (passages != 1)} added"


def repeats(question: str, answer: str) -> bool:
    """Whether an answer is its question again, or nothing: that is none."""
    asked, said = (set(re.findall(r"\w+", text.lower())) for text in (question, answer))
    return not said or (said <= asked and 2 * len(said) >= len(asked))
