"""Records the generations of a loaded model, without changing its callers' output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily

if TYPE_CHECKING:
    from attribot_rag.model.generation import Generation as Generation
    from attribot_rag.recording.generating import generate_answer as generate_answer
    from attribot_rag.recording.generating import generate_with as generate_with
    from attribot_rag.recording.recorder import GenerationRecorder as GenerationRecorder
    from attribot_rag.recording.transcript import Answer as Answer
    from attribot_rag.recording.transcript import PromptText as PromptText
    from attribot_rag.recording.transcript import Transcript as Transcript
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "..model.generation": ["Generation"],
            ".generating": ["generate_answer", "generate_with"],
            ".recorder": ["GenerationRecorder"],
            ".transcript": ["Answer", "PromptText", "Transcript"],
        },
    )
