"""The foundation of integrations with frameworks; stable and public.

An `AttributionService` records a model, finds the generation that gave an answer, attributes it
here or in the background, and keeps the run in a `RunStore`. An `Observer` is told what an
application does (what was retrieved, which model was called, what it answered, what its caller was
given), and has the services do the rest:

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

What comes of a run is told to the OpenTelemetry span that its model answered in (`trace_run`), and
`feedback_of` gives it to other tools that collect feedback on answers. `answer_without` lets the
model answer again without some of a run's documents.

`ServiceRegistry` holds the services where a model is known only when it answers,
`remove_duplicates` takes out what retrieved texts repeat, `texts_in_prompt` tells which texts a
prompt was made of, and `told_document` reads a document in whatever form a search gives it.
"""

from attribot_rag.attribution import Counterfactual
from attribot_rag.context import texts_in_prompt
from attribot_rag.model.chat_messages import verbatim_texts
from attribot_rag.recording import Answer
from attribot_rag.result.summary import MAX_SUMMARY_BYTES
from attribot_rag.runtime.documents import (
    DeduplicatedText,
    merge_documents,
    remove_duplicates,
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
    attach_to_mapping,
    is_taken,
    summaries_of,
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
    "DeduplicatedText",
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
    "attach_to_mapping",
    "feedback_of",
    "is_taken",
    "merge_documents",
    "remove_duplicates",
    "scoring_model",
    "summaries_of",
    "texts_in_prompt",
    "told_document",
    "trace_run",
    "verbatim_texts",
]
