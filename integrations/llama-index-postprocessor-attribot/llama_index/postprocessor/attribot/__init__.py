"""Which retrieved text caused the answer of a LlamaIndex query engine on a local model."""

from llama_index.postprocessor.attribot.base import AttributionPostprocessor
from llama_index.postprocessor.attribot.engine import AttributedQueryEngine

__all__ = ["AttributedQueryEngine", "AttributionPostprocessor"]
