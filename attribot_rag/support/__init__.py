"""Whether the text that caused a sentence says it."""

from attribot_rag.support.support import Retrieved, with_support

__all__ = ["Retrieved", "with_support"]
