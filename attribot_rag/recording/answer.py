"""An answer of a model, from the framework that shows it to the summary that is attached to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribot_rag.context.document import Documents
from attribot_rag.model.language_model import Prompt
from attribot_rag.recording.transcript import Transcript

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of an answer.

    `text` is what its caller was given: the answer or its beginning, perhaps with the prompt before
    it. `documents` are the framework's own. `prompt_texts` all stand in the prompt and tell it from
    other prompts; `prompt` is the whole of it, if it is known. `notes` become the attribution's,
    `warning` one of an attribution that finds no source of some sentence. `query` is what was
    asked. `elsewhere` says that another copy of the model gave it, which nobody recorded: its
    prompt and its text are tokenized. `beside_others` says that the application calls models
    several times, so that documents that do not stand in this prompt are no cause for a warning.
    `span` is the OpenTelemetry span of the model's call, where the framework tells it. `contents`
    are what the prompt has of the documents, where that is not what `Document.of` reads.

    Once the answer is matched, `transcript` is the generation that gave it, cut to the text, and
    `start` the character at which the response begins in the text. Attributed, it keeps no
    transcript: that may hold a KV cache.
    """

    text: str
    documents: Documents = ()
    prompt_texts: Sequence[str] = ()
    prompt: Prompt | None = None
    notes: Sequence[str] = ()
    warning: str = ""
    query: str | None = None
    elsewhere: bool = False
    beside_others: bool = False
    span: Span | None = None
    contents: Documents | None = None
    transcript: Transcript | None = None
    start: int = 0

    @property
    def read(self) -> Documents:
        """The documents as the prompt may have them."""
        return self.documents if self.contents is None else self.contents
