"""What adapters to frameworks share: capture, one attribution at a time, a summary to attach."""

from attribot_rag.adapting.answers import Answer, AnswerAttributor
from attribot_rag.adapting.attributing import Attributing, Mode
from attribot_rag.adapting.deduplicating import Kept, remove_duplicates
from attribot_rag.adapting.outcome import MAX_SUMMARY_BYTES, Outcome
from attribot_rag.adapting.runs import AttributedRun, Results
from attribot_rag.adapting.standing import standing_in
from attribot_rag.adapting.worker import Worker

__all__ = [
    "MAX_SUMMARY_BYTES",
    "Answer",
    "AnswerAttributor",
    "AttributedRun",
    "Attributing",
    "Kept",
    "Mode",
    "Outcome",
    "Results",
    "Worker",
    "remove_duplicates",
    "standing_in",
]
