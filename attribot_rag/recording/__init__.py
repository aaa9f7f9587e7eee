"""Recording the generations of a loaded model, without changing its callers' output."""

from attribot_rag.model.generation import Generation
from attribot_rag.recording.generating import generate_answer, generate_with
from attribot_rag.recording.recorder import GenerationRecorder
from attribot_rag.recording.transcript import Answer, PromptText, Transcript

__all__ = [
    "Answer",
    "Generation",
    "GenerationRecorder",
    "PromptText",
    "Transcript",
    "generate_answer",
    "generate_with",
]
