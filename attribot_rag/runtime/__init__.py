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

from attribot_rag.attribution import Counterfactual as Counterfactual
from attribot_rag.context import texts_in_prompt as texts_in_prompt
from attribot_rag.model.chat_messages import verbatim_texts as verbatim_texts
from attribot_rag.recording import Answer as Answer
from attribot_rag.result.summary import MAX_SUMMARY_BYTES as MAX_SUMMARY_BYTES
from attribot_rag.runtime.documents import merge_documents as merge_documents
from attribot_rag.runtime.documents import told_document as told_document
from attribot_rag.runtime.observer import Advice as Advice
from attribot_rag.runtime.observer import Call as Call
from attribot_rag.runtime.observer import Observer as Observer
from attribot_rag.runtime.observer import Only as Only
from attribot_rag.runtime.options import Mode as Mode
from attribot_rag.runtime.options import Reader as Reader
from attribot_rag.runtime.options import RunOptions as RunOptions
from attribot_rag.runtime.options import Scoring as Scoring
from attribot_rag.runtime.options import ServiceOptions as ServiceOptions
from attribot_rag.runtime.options import scoring_model as scoring_model
from attribot_rag.runtime.reach import Step as Step
from attribot_rag.runtime.reach import Steps as Steps
from attribot_rag.runtime.runs import AttributedRun as AttributedRun
from attribot_rag.runtime.runs import RunStore as RunStore
from attribot_rag.runtime.service import AttributionService as AttributionService
from attribot_rag.runtime.service import KeepsRuns as KeepsRuns
from attribot_rag.runtime.service import ServiceRegistry as ServiceRegistry
from attribot_rag.runtime.service import answer_without as answer_without
from attribot_rag.runtime.tracing import Feedback as Feedback
from attribot_rag.runtime.tracing import feedback_of as feedback_of
from attribot_rag.runtime.tracing import trace_run as trace_run
