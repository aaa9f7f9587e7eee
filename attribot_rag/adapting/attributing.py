"""What integrations do with an answer, here or in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Literal, get_args

from attribot_rag.adapting.answers import Answer, AnswerAttributor
from attribot_rag.adapting.outcome import Outcome
from attribot_rag.adapting.runs import AttributedRun, Results
from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel

logger = logging.getLogger(__name__)

Mode = Literal["inline", "background"]


class Attributing:
    """Attributes the answers of one model, here or in the background, and keeps the last ones.

    In mode 'background' at most `max_pending` answers may wait; `on_result` is told of every one
    that is finished. `options` are those of Attributor.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        mode: Mode = "inline",
        max_pending: int = 32,
        max_results: int = 128,
        on_result: Callable[[AttributedRun], None] | None = None,
        raise_error: bool = False,
        always: bool = True,
        results: Results | None = None,
        **options: Any,
    ) -> None:
        if mode not in get_args(Mode):
            raise InvalidInput(f"mode={mode!r}; choose one of {', '.join(get_args(Mode))}")
        if max_results < 1:
            raise InvalidInput(f"max_results={max_results!r}; use at least 1")
        self.answers = AnswerAttributor(
            language_model,
            max_pending=max_pending,
            raise_error=raise_error,
            always=always,
            **options,
        )
        self.results = Results(max_results) if results is None else results
        self.in_background = mode == "background"
        self._on_result = on_result

    def attribute(
        self, run_id: str, root_id: str, answer: Answer, *, background: bool = False
    ) -> AttributedRun:
        """The finished run; in the background, asked for here or by the mode, one under way.

        Those that are asked for here are not bounded in number.
        """
        run = AttributedRun(run_id, root_id, answer.documents, answer.text)

        def known() -> Outcome | None:
            return self.results.known(root_id, answer.text, answer.documents)

        if not (background or self.in_background):
            return self._finished(run, self.answers.attribute(answer, known))
        future: Future[AttributedRun] = Future()
        self.results.expect(run, future)
        try:
            self.answers.submit(
                answer,
                lambda outcome: future.set_result(self._finished(run, outcome)),
                known,
                bounded=self.in_background,
            )
        except Exception as error:  # the queue is full
            refused = self._finished(run, Outcome(error=error))
            future.set_result(refused)
            self.answers.failed(error)
            return refused
        return run

    def _finished(self, under_way: AttributedRun, outcome: Outcome) -> AttributedRun:
        run = replace(under_way, outcome=outcome)
        self.results.add(run)
        if self._on_result is not None:
            try:
                self._on_result(run)
            except Exception:
                logger.exception("on_result failed for the run %s", run.run_id)
        return run
