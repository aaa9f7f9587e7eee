"""Documents, their sources, and the places of both in the prompt that the model saw."""

from attribot_rag.context.ablated_prompt import AblatedPrompt
from attribot_rag.context.ablation import Ablation
from attribot_rag.context.context import Context, ContextOptions, locate_context
from attribot_rag.context.document import Document, DocumentSpan, Occurrence, Source
from attribot_rag.context.locator import texts_in_prompt
from attribot_rag.context.prompt_input import PromptInput
from attribot_rag.context.tokens import TokenizedText

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
