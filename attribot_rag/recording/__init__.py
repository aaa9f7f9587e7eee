"""Recording what a loaded model generates, without changing what its callers get."""

from attribot_rag.model.generation import Generation
from attribot_rag.recording.answer import Answer
from attribot_rag.recording.generating import generate_answer, generate_with
from attribot_rag.recording.recorder import GenerationRecorder
from attribot_rag.recording.transcript import PromptText, Transcript

__all__ = [
    "Answer",
    "Generation",
    "GenerationRecorder",
    "PromptText",
    "Transcript",
    "generate_answer",
    "generate_with",
]
