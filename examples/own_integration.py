"""An integration built on public names: attributions for transformers' pipelines.

python examples/own_integration.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from transformers import TextGenerationPipeline
from typing_extensions import Unpack

from attribot_rag import LocalModel, load_model
from attribot_rag.runtime import Answer, AttributedRun, AttributionService, ServiceOptions


class AttributedPipeline:
    """A pipeline whose answers about documents carry which text caused them.

    Called as the pipeline is, with the documents beside a conversation that ends with the question.
    `options` are those of RunOptions, by name or whole.
    """

    def __init__(self, pipeline: TextGenerationPipeline, **options: Unpack[ServiceOptions]) -> None:
        self._pipeline = pipeline
        model = LocalModel(pipeline.model, pipeline.tokenizer)
        self._service = AttributionService(model, **options)  # records the model from here on

    def __call__(
        self, messages: Sequence[dict[str, str]], documents: Sequence[str], **generate: Any
    ) -> dict[str, Any]:
        """The pipeline's output, with `run_id` and the `attribution`, a summary of plain data."""
        *earlier, question = messages
        prompt = {**question, "content": "\n\n".join([*documents, question["content"]])}
        (output,) = self._pipeline([*earlier, prompt], return_full_text=False, **generate)
        answer = Answer(output["generated_text"], documents, prompt_texts=[question["content"]])
        run_id = str(uuid4())
        run = self._service.attribute(run_id, run_id, answer)
        return {**output, "run_id": run_id, "attribution": run.summary}

    def result(self, run_id: str, timeout: float | None = None) -> AttributedRun:
        """The whole run, waited for while it is pending."""
        return self._service.store.wait(run_id, timeout)

    def close(self) -> None:
        """Give the model its own `generate` back."""
        self._service.close()


if __name__ == "__main__":
    passages = [
        "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
        "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
    ]
    local = load_model()
    attributed = AttributedPipeline(TextGenerationPipeline(local.model, tokenizer=local.tokenizer))
    ask = [
        {"role": "user", "content": "Answer with one short sentence: how high is the lighthouse?"}
    ]
    output = attributed(ask, passages, max_new_tokens=40, do_sample=False)
    run = attributed.result(output["run_id"])
    print(run.to_cited_text())
    attributed.close()
