"""Documents, their sources, and where both are in the prompt that the model saw."""

from attribot_rag.context.context import Context, ContextOptions, PromptInput
from attribot_rag.context.document import Document, DocumentSpan, Occurrence, Source
from attribot_rag.context.locating import locate_context, texts_in_prompt
from attribot_rag.context.prompt import AblatedPrompt, Ablation, TokenizedText

__all__ = [
    "AblatedPrompt",
    "Ablation",
    "Context",
    "ContextOptions",
    "Document",
    "DocumentSpan",
    "Occurrence",
    "PromptInput",
    "Source",
    "TokenizedText",
    "locate_context",
    "texts_in_prompt",
]
