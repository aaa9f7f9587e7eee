"""Recording what a loaded model generates, without changing what its callers get."""

from attribot_rag.model.generation import Generation
from attribot_rag.recording.answer import generate_answer, generate_with
from attribot_rag.recording.other_prompt import with_recorded
from attribot_rag.recording.recorder import GenerationRecorder, Match

__all__ = [
    "Generation",
    "GenerationRecorder",
    "Match",
    "generate_answer",
    "generate_with",
    "with_recorded",
]
