"""Whatever is answered, streamed, attributed, cancelled and closed, in any order and many threads.

`tasks/fuzz` tries more orders.
"""

import gc
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, rendered, say
from support.tiny_models import unshared

from attribot_rag import Attribution, Attributor
from attribot_rag.errors import AttributionCancelled, NotRecorded
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import Answer, AttributedRun, AttributionService

SECONDS = scaled(60)
ANSWERS = (ANSWER, "They brought salt and timber. The river was closed.")
BEGINNINGS = {ANSWER: "In the old town hall.", ANSWERS[1]: "They brought salt"}


@cache
def local() -> LocalModel:
    return unshared()


@cache
def attributor() -> Attributor:
    """An attributor of its own, with nothing recorded."""
    return Attributor(local(), method="leave_one_out", verdicts=None, progress=False)


@cache
def expected(question: str, num_documents: int, answer: str) -> Attribution:
    documents = DOCUMENTS[:num_documents]
    prompt = local().encode_prompt(rendered(local(), documents, question))
    return attributor().attribute(prompt, answer, documents)


@dataclass(eq=False)
class GeneratedAnswer:
    """An answer that a thread generates; it ends when the gate is opened."""

    question: str
    num_documents: int
    text: str
    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    was_seen: bool = True
    generated: Future[None] = field(default_factory=Future)

    def generate(self) -> None:
        prompt = rendered(local(), DOCUMENTS[: self.num_documents], self.question)
        say(local(), [prompt], [self.text], stopping_criteria=[self._wait])

    def _wait(self, ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        self.begun.set()
        assert self.gate.wait(SECONDS)
        return torch.zeros(len(ids), dtype=torch.bool)

    def end(self) -> None:
        self.gate.set()
        self.generated.result(SECONDS)


@dataclass(eq=False)
class Run:
    answer: GeneratedAnswer
    shown: str
    submitted: Future[AttributedRun]
    is_cancelled: bool = False


class Conversations(RuleBasedStateMachine):
    answers = Bundle("answers")
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.threads = ThreadPoolExecutor(8)
        self.services: list[AttributionService] = []
        self.begun: list[GeneratedAnswer] = []
        self.submitted: list[tuple[AttributionService, Run]] = []
        self._open()

    def _open(self) -> None:
        self.services.append(AttributionService(local(), method="leave_one_out", verdicts=None))

    @rule(
        target=answers,
        num_documents=st.integers(1, len(DOCUMENTS)),
        text=st.sampled_from(ANSWERS),
        streamed=st.booleans(),
    )
    def generate(self, num_documents: int, text: str, streamed: bool) -> GeneratedAnswer:
        """In a thread; one that is not streamed has ended afterwards."""
        answer = GeneratedAnswer(f"What was number {len(self.begun)}?", num_documents, text)
        self.begun.append(answer)
        answer.generated = self.threads.submit(answer.generate)
        assert answer.begun.wait(SECONDS)
        if not streamed or sum(not begun.gate.is_set() for begun in self.begun) > 4:
            answer.end()
        return answer

    @rule(answer=answers)
    def end(self, answer: GeneratedAnswer) -> None:
        answer.end()

    @rule(target=runs, answer=consumes(answers), background=st.booleans(), whole=st.booleans())
    def attribute(self, answer: GeneratedAnswer, background: bool, whole: bool) -> Run:
        """In another thread; what still runs is awaited in the background."""
        shown = answer.text if whole else BEGINNINGS[answer.text]
        observed = Answer(shown, DOCUMENTS[: answer.num_documents], [answer.question])
        service, name = self.services[-1], answer.question
        later = background or not answer.generated.done()
        submitted = self.threads.submit(service.attribute, name, name, observed, background=later)
        run = Run(answer, shown, submitted)
        self.submitted.append((service, run))
        return run

    @rule(run=runs)
    def cancel(self, run: Run) -> None:
        run.submitted.result(SECONDS)
        service = next(service for service, other in self.submitted if other is run)
        run.is_cancelled |= service.store.future(run.answer.question).cancel()

    @rule()
    def close(self) -> None:
        """With what runs and waits; another service begins."""
        for _, run in self.submitted:
            run.submitted.result(SECONDS)
        self.services[-1].close()
        for answer in self.begun:
            answer.was_seen = False
        self._open()

    @rule()
    def collect_garbage(self) -> None:
        gc.collect()

    def teardown(self) -> None:
        for answer in self.begun:
            answer.end()
        for service, run in self.submitted:
            name = run.submitted.result(SECONDS).run_id
            self._check(run, service.store.wait(name, SECONDS))
        self.threads.shutdown()
        for service in self.services:
            assert service.store.num_pending == 0
            service.close()
        assert local().weights.background.num_pending == 0
        assert "generate" not in local().model.__dict__

    def _check(self, run: Run, ended: AttributedRun) -> None:
        if run.is_cancelled:
            assert isinstance(ended.error, AttributionCancelled)
            return
        if ended.error is not None:
            assert isinstance(ended.error, NotRecorded)
            assert not run.answer.was_seen
            return
        assert ended.attribution is not None
        truth = expected(run.answer.question, run.answer.num_documents, run.shown)
        assert ended.attribution.response == run.shown
        matrix = ended.attribution.matrix[:, : truth.matrix.shape[1]]
        assert matrix.shape == truth.matrix.shape
        assert abs(matrix - truth.matrix).max() < 1e-3


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=settings().max_examples // 10, stateful_step_count=20
)
