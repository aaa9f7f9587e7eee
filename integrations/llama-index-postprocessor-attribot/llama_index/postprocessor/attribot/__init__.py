"""Which retrieved text caused the answer of a LlamaIndex query engine on a local model."""

from llama_index.postprocessor.attribot.base import AttributionPostprocessor

__all__ = ["AttributionPostprocessor"]
