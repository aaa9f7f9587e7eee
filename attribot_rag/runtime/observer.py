"""Follows what an application does, and attributes its answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import Prompt
from attribot_rag.recording import Answer
from attribot_rag.runtime.documents import document_key, metadata_note
from attribot_rag.runtime.reach import Reach, Step, Steps
from attribot_rag.runtime.runs import AttributedRun, RunStore
from attribot_rag.runtime.service import AttributionService, service_that_saw

_log = logging.getLogger(__name__)

Only = str | Callable[[frozenset[str]], bool] | None
"""Which calls are attributed: a name of a step around them, or a function of all these names."""


@dataclass(eq=False)
class Call:
    """A call of a model. Its `answer` has the prompt and the documents, before the model answers.

    If `wanted` is false, the call is not attributed. After the answer, `is_answered` is true, and
    `run` is set if there were documents. An integration may set the `service` of the model and the
    ids of the run and its root, by default the steps' ids. `shares` says that other calls may have
    read the same documents.
    """

    step: Step
    answer: Answer
    wanted: bool = True
    service: AttributionService | None = None
    run_id: str | None = None
    root_id: str | None = None
    shares: bool = False
    is_answered: bool = False
    run: AttributedRun | None = None


class Observer:
    """Attributes the answers of an application that reports what it does:

        observer = Observer([AttributionService(language_model)])
        observer.began("chain")                                     # a run, perhaps within another
        observer.began("search", "chain")
        observer.retrieved("search", documents)                     # a step of it found these
        call = observer.called("model", "chain", prompt, [question])
        run = observer.answered(call, text)                         # attributed here
        observer.ended("chain", [text])                             # what the run gave its caller

    Steps may overlap, in any threads. A call gets the documents of the nearest step around it that
    has any: in the example, the documents of the search in the same chain. It also gets documents
    of outer steps, and earlier answers of the same run, if its prompt contains them. An earlier
    answer leads to the documents that it was made of. In the `store`, you find an answer by the id
    of the run that gave it.

    Args:
        services: A service for each model that may answer. All share one store.
        elsewhere: Whether a copy of the model answers, so that there is no recording.
        only: Which calls are attributed, by the names of the steps around them; None for all.
        loose: Whether a prompt may contain documents and answers of earlier steps that have no
            parent, as in a script that searches and asks without a chain.
        steps: The application's steps, if several observers share them.
        store: The store to use if each call names its own service.
    """

    def __init__(
        self,
        services: Sequence[AttributionService],
        *,
        elsewhere: bool = False,
        only: Only = None,
        loose: bool = False,
        steps: Steps | None = None,
        store: RunStore | None = None,
    ) -> None:
        self.services = services
        own = services[0].store if services else RunStore()
        self.store = own if store is None else store
        self.steps = Steps() if steps is None else steps
        self._elsewhere = elsewhere
        self._only = only
        self._reach = Reach(self.steps, loose=loose)

    @property
    def loose_documents(self) -> Sequence[Any]:
        """The last documents of steps without a parent, if `loose`."""
        return tuple(self._reach.loose_documents)

    def began(self, step_id: object, parent_id: object = None, **described: Any) -> Step:
        """A step began, within another step or alone. `described` are fields of Step."""
        return self.steps.begin(step_id, parent_id, **described)

    def retrieved(
        self, step_id: object, documents: Sequence[Any], *, replaces: bool = False
    ) -> None:
        """A step ended, and found these documents.

        With `replaces`, they replace the documents that steps within this step found.
        """
        step = self.steps.end(step_id, found=documents, replaces=replaces)
        if step is None:
            _log.warning(
                "The step %r retrieved documents, but began() was not called for it, or it was "
                "forgotten: no answer is attributed to them.",
                str(step_id),
            )
        else:
            self._reach.ended(step)

    def called(
        self,
        step_id: object,
        parent_id: object,
        prompt: Prompt,
        texts: Sequence[str],
        *,
        names: frozenset[str] = frozenset(),
        given: Sequence[Any] = (),
        **known: Any,
    ) -> Call:
        """A model is asked, in a new step that `answered` ends.

        `prompt` is the whole prompt, a text or messages. `texts` are parts of it, word for word,
        such as the content of each message. They find the recorded generation, and show which
        documents were read. `names` and `given` are fields of Step. `known` are fields of Answer,
        such as `question`.
        """
        if isinstance(texts, str):
            raise InvalidInput(f"texts={texts[:60]!r}; give a list of texts, such as [prompt]")
        step = self.steps.begin(step_id, parent_id, kind="model", names=names, given=given)
        around, only = step.all_names(), self._only
        wanted = only is None or (only in around if isinstance(only, str) else only(around))
        answer = Answer("", prompt_texts=tuple(texts), prompt=prompt, **known)
        return Call(step, answer, wanted=wanted)

    def answered(self, call: Call, text: str, *, background: bool = False) -> AttributedRun | None:
        """The run of the answer, which may be pending; None if no documents were seen.

        This ends the call, unless it has ended. A repeated event changes nothing.
        """
        if not call.is_answered:
            call.is_answered = True
            call.run = self._attributed(call, text, background)
            self.steps.end(call.step.id)
        return call.run

    def ended(
        self, step_id: object, texts: Sequence[str] | None = None, documents: Sequence[Any] = ()
    ) -> AttributedRun | None:
        """A step ended, and gave its caller these texts or documents. Returns the run of its
        answer.

        The result is None if nothing in it was attributed, or if `texts` is None. From now on, the
        step's id names this run in the store.
        """
        step = self.steps.end(step_id, made=documents)
        if step is not None:
            self._reach.ended(step)
        if step is None or texts is None:
            return None
        if step.parent is None:
            return self.store.set_answer(step.id, texts)
        within = {inner.id for inner in step.within()}
        return self.store.name_answer(step.id, texts, within)

    def _attributed(self, call: Call, text: str, background: bool) -> AttributedRun | None:
        step, known = call.step, call.answer
        prompt = "\n".join(known.prompt_texts)
        read = self._reach.contents(step, prompt, shares=call.shares)
        documents = read.documents
        run_id, root_id = call.run_id or step.id, call.root_id or step.root.id
        if not (documents or read.earlier):
            return None
        answer = replace(
            known,
            text=text,
            documents=tuple(read.retrieved if read.earlier else documents),
            warning=known.warning or metadata_note(documents, prompt),
            elsewhere=known.elsewhere or self._elsewhere,
            beside_others=step.parent is not None,
            contents=tuple(documents) if read.earlier else None,
            retrieved=tuple(read.retrieved),
            num_before=read.num_before,
        )
        if not call.wanted:
            error = InvalidInput("only= leaves out the call that gave this answer")
            self._reach.keep(step, AttributedRun(run_id, root_id, answer, error=error))
            return None
        service = call.service
        if service is None:
            service, answer = service_that_saw(self.services, answer)
        run = service.attribute(
            run_id, root_id, answer, earlier=read.earlier, background=background
        )
        self._reach.keep(step, run)
        if run.attribution is not None:
            gone = frozenset(run.attribution.not_located)
            used = (part for index, part in enumerate(documents) if index not in gone)
            step.root.used.update(map(document_key, used))
        return run


_MAX_WARNED = 256


class Advice:
    """Logs why an application's answers have no attribution, once for up to 256 applications."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._warned: set[Hashable] = set()

    def tell(self, application: Hashable, name: str, reason: str) -> None:
        """Log why an application's answer has no attribution.

        Any value may identify the application.
        """
        if application not in self._warned and len(self._warned) < _MAX_WARNED:
            self._warned.add(application)
            self._logger.warning("no attribution of what %s answered: %s", name, reason)
