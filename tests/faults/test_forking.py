"""A process that forks while threads use the model: the child waits for none of them."""

import os
import threading
from collections.abc import Callable

import pytest
import torch
from support.patience import scaled
from support.processes import exit_code
from support.scripted_generation import DOCUMENTS, QUESTION, generate, rendered
from support.tiny_models import byte_level, endless

from attribot_rag import Attributor
from attribot_rag.recording import Answer
from attribot_rag.scoring import LocalBackend

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked on this system"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
ANSWER = "In the old town hall."


def forked(work: Callable[[], bool]) -> int | None:
    """0 of a forked process in which this is true; None if it had to be ended."""
    child = os.fork()
    if not child:
        status = 1
        try:
            torch.set_num_threads(1)  # those of the parent's pool do not exist either
            status = int(not work())
        finally:
            os._exit(status)
    return exit_code(child, scaled(60))


def test_a_forked_process_attributes_beside_its_parent_s_threads() -> None:
    """One has the model's turn within an attribution, another one generates, a task waits."""
    model = endless(byte_level().tokenizer)
    attributor = Attributor(model, method="leave_one_out", progress=False)
    prompt = rendered(model)
    expected = attributor.attribute(prompt, ANSWER, DOCUMENTS).token_scores
    ids = torch.tensor([model.encode_prompt(prompt)])
    queue, opened = model.weights.background, threading.Event()
    backend = attributor.backend
    assert isinstance(backend, LocalBackend)
    scoring, generating = threading.Event(), threading.Event()

    def hold(reached: threading.Event) -> None:
        reached.set()
        assert opened.wait(scaled(180))

    def block(ids: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        hold(generating)
        return torch.ones(len(ids), dtype=torch.bool)

    def score() -> None:
        with model.weights.turn(), backend.assume_unchanged(), backend._lock:
            hold(scoring)

    def attributes() -> bool:
        match = attributor.recorder.match(Answer(ANSWER, prompt_texts=[QUESTION]))
        token_scores = attributor.attribute(prompt, ANSWER, DOCUMENTS).token_scores
        task = queue.submit(lambda: 3, max_pending=1)
        return match.done() and token_scores == expected and task.result() == 3

    with attributor.recorder:
        blocked = queue.submit(score, max_pending=2)
        waiting = queue.submit(lambda: 4, max_pending=2)
        options = {"max_new_tokens": 8, "stopping_criteria": [block]}
        thread = threading.Thread(target=generate, args=[model, ids], kwargs=options)
        thread.start()
        assert scoring.wait(scaled(60)) and generating.wait(scaled(60))
        try:
            assert not attributor.recorder.match(Answer(ANSWER, prompt_texts=[QUESTION])).done()
            assert forked(attributes) == 0
            assert queue.num_pending == 2
        finally:
            opened.set()
        blocked.result(scaled(60))
        assert waiting.result(scaled(60)) == 4
        thread.join(scaled(60))
    assert attributor.attribute(prompt, ANSWER, DOCUMENTS).token_scores == expected
