"""The facade: an `Attribution` from a prompt, an answer and its documents."""

from attribot_rag.attributor.attributor import Attributor
from attribot_rag.attributor.options import AttributorOptions, Options
from attribot_rag.attributor.transcripts import rag_prompt
from attribot_rag.context.document import Documents

__all__ = ["Attributor", "AttributorOptions", "Documents", "Options", "rag_prompt"]
