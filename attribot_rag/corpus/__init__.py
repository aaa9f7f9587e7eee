"""Files of a folder as chunks of text, and their retrieval. Needs the extra `cli`."""

from attribot_rag.corpus.chunks import read_chunks, retrieve

__all__ = ["read_chunks", "retrieve"]
