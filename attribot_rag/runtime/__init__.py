"""The foundation of integrations with frameworks; stable and public.

An `AttributionService` records a model, finds the generation that gave an answer, attributes the
answer now or in the background, and keeps the run in a `RunStore`. You tell an `Observer` what your
application does, and it calls the services:

    service = AttributionService(language_model)  # records the model from here on
    observer = Observer([service])
    observer.began("chain", given=documents)
    call = observer.called("call", "chain", prompt, [question])
    ...                                           # the framework has the model answer
    run = observer.answered(call, text)
    observer.ended("chain", [text])
    run.summary                                   # plain data to attach to the answer
    run.attribution                               # the whole result, or None and an `error`
    service.close()

`trace_run` writes a run into the OpenTelemetry span of its model's call. `feedback_of` makes
feedback for other tools. `answer_without` lets the model answer again without some documents.

`ServiceRegistry` makes services for models that are known only when they answer.
`texts_in_prompt` finds the texts that a prompt contains. `told_document` makes a Document of any
search result.
"""

from attribot_rag.attribution import Counterfactual
from attribot_rag.context import texts_in_prompt
from attribot_rag.model.chat_messages import verbatim_texts
from attribot_rag.recording import Answer
from attribot_rag.result.summary import MAX_SUMMARY_BYTES
from attribot_rag.runtime.documents import (
    merge_documents,
    told_document,
)
from attribot_rag.runtime.observer import Advice, Call, Observer, Only
from attribot_rag.runtime.options import (
    Mode,
    Reader,
    RunOptions,
    Scoring,
    ServiceOptions,
    scoring_model,
)
from attribot_rag.runtime.reach import Step, Steps
from attribot_rag.runtime.runs import (
    AttributedRun,
    RunStore,
)
from attribot_rag.runtime.service import (
    AttributionService,
    KeepsRuns,
    ServiceRegistry,
    answer_without,
)
from attribot_rag.runtime.tracing import Feedback, feedback_of, trace_run

__all__ = [
    "MAX_SUMMARY_BYTES",
    "Advice",
    "Answer",
    "AttributedRun",
    "AttributionService",
    "Call",
    "Counterfactual",
    "Feedback",
    "KeepsRuns",
    "Mode",
    "Observer",
    "Only",
    "Reader",
    "RunOptions",
    "RunStore",
    "Scoring",
    "ServiceOptions",
    "ServiceRegistry",
    "Step",
    "Steps",
    "answer_without",
    "feedback_of",
    "merge_documents",
    "scoring_model",
    "texts_in_prompt",
    "told_document",
    "trace_run",
    "verbatim_texts",
]
