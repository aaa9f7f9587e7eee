"""The results of a run with model and proxy the other way round, on the same answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from attribot_rag.errors import InvalidInput
from attribot_rag.methods import LeaveOneOut, Proxy
from attribot_rag.model.local_model import LocalModel
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import answer_question, prepare
from benchmarks.experiment.grid import EXACT, PROXY, method_description
from benchmarks.experiment.results import AnswerRecord, ResultStore, ScoreRecord


@dataclass(eq=False)
class Turned:
    """`results` of `language_model`, which answers again: the file has no texts.

    Its exact scores are those of a proxy here, and those of its proxy are exact here, since both
    read the same messages and the same answer.
    """

    results: ResultStore
    language_model: LocalModel
    template: str
    max_new_tokens: int
    _sources: dict[str, list[int]] = field(init=False, default_factory=dict)

    def answered(self, example: Example) -> Example:
        """The example with its answer; raises InvalidInput if the results have another."""
        question = prepare(example, self.language_model, self.template, self.max_new_tokens)
        answer = answer_question(question)
        stored = self.results.answers.get(example.key)
        if answer is None or stored is None or answer.digest != stored.digest:
            raise InvalidInput(f"{self.results.path} has another answer to {example.key}, or none")
        self._sources[example.key] = stored.documents
        response = self.language_model.decode(
            answer.generation.response_ids, skip_special_tokens=True
        )
        return replace(example, response=response)

    def scored(
        self, record: AnswerRecord, name: str, options: str, target: LocalModel
    ) -> ScoreRecord | None:
        """The scores of this method for a target that was the proxy; None if they are unknown."""
        if name not in {EXACT, PROXY} or self._sources.get(record.key) != record.documents:
            return None
        there = {EXACT: (PROXY, Proxy(target)), PROXY: (EXACT, LeaveOneOut())}[name]
        stored = self.results.answers[record.key]
        scores = self.results.scored(stored, there[0], method_description(there[1]))
        if scores is None:
            return None
        return replace(scores, digest=record.digest, method=name, options=options)
