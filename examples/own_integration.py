"""An integration of one's own: a small RAG framework whose events an Observer is told.

python examples/own_integration.py
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attribot_rag import LocalModel, load_model
from attribot_rag.display import visible
from attribot_rag.runtime import AttributedRun, AttributionService, Call, Observer


class Framework:
    """Finds passages, asks a model, and tells listeners of it: what stands for your framework."""

    def __init__(self, model: LocalModel, passages: Sequence[str]) -> None:
        self._model, self._passages = model, passages
        self.listeners: list[Callable[..., None]] = []
        self._ids = itertools.count(1)

    def answer(self, question: str, parent: int | None = None) -> str:
        """Answer from the passages that have a word of the question."""
        with self._step("chain", parent) as run:
            words = [word for word in question.lower().strip("?").split() if len(word) > 4]
            with self._step("search", run) as search:
                found = [text for text in self._passages if any(word in text for word in words)]
                self._tell("found", search, documents=found)
            return self._asked(run, [*found, question])

    def merged(self, questions: Sequence[str], question: str) -> str:
        """Answer each question, and the last one from these answers (map-reduce)."""
        with self._step("chain", None) as run:
            return self._asked(run, [*(self.answer(part, run) for part in questions), question])

    def _asked(self, run: int, texts: Sequence[str]) -> str:
        with self._step("model", run, prompt="\n\n".join(texts)) as call:
            text = self._generate("\n\n".join(texts))
            self._tell("said", call, text=text)
        self._tell("gave", run, text=text)
        return text

    def _generate(self, prompt: str) -> str:
        tokenizer, model = self._model.tokenizer, self._model.model
        messages = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=False
        )
        output = model.generate(ids, max_new_tokens=40, do_sample=False)
        return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))

    @contextmanager
    def _step(self, kind: str, parent: int | None, **told: Any) -> Iterator[int]:
        step = next(self._ids)
        self._tell("started", step, kind=kind, parent=parent, **told)
        try:
            yield step
        finally:
            self._tell("ended", step)

    def _tell(self, event: str, step: int, **told: Any) -> None:
        for listener in self.listeners:
            listener(event, step, **told)


class Attributions:
    """The integration: a listener that attributes the framework's answers, by the run's id."""

    def __init__(self, model: LocalModel, **options: Any) -> None:
        self._service = AttributionService(model, **options)  # records the model from here on
        self._observer = Observer([self._service])
        self._calls: dict[int, Call] = {}

    def __call__(self, event: str, step: int, **told: Any) -> None:
        observer = self._observer
        if event == "started" and told["kind"] == "model":
            messages = [{"role": "user", "content": told["prompt"]}]
            call = observer.called(step, told["parent"], messages, [told["prompt"]])
            self._calls[step] = call
        elif event == "started":
            observer.began(step, told["parent"])
        elif event == "found":
            observer.retrieved(step, told["documents"])
        elif event == "said":
            observer.answered(self._calls.pop(step), told["text"])
        elif event == "gave":
            observer.ended(step, [told["text"]])
        else:
            self._calls.pop(step, None)
            observer.ended(step)  # ended before, or failed

    def result(self, run: int, timeout: float | None = None) -> AttributedRun:
        """The run's answer with its attribution, waited for while that is pending."""
        return self._observer.store.wait(run, timeout)

    def close(self) -> None:
        """Give the model its own `generate` back."""
        self._service.close()


if __name__ == "__main__":
    passages = [
        "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
        "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    ]
    local = load_model()
    framework, attributions = Framework(local, passages), Attributions(local)
    framework.listeners.append(attributions)
    parts = ["How high is the lighthouse?", "How many passengers does the ferry carry?"]
    framework.answer(parts[0])
    print(visible(attributions.result(1).to_cited_text(sources=True)), "\n")
    framework.merged(parts, "Repeat these two sentences.")
    print(visible(attributions.result(4).to_cited_text(sources=True)))
    attributions.close()
