"""Shows which retrieved text caused the answer of a LlamaIndex query engine."""

from llama_index.postprocessor.attribot.base import AttributionPostprocessor
from llama_index.postprocessor.attribot.engine import AttributedQueryEngine

__version__ = "0.1.0"

__all__ = ["AttributedQueryEngine", "AttributionPostprocessor", "__version__"]
