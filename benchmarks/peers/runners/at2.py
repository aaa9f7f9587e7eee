"""AT2 (at2) before training: each head of each layer weighs as much as any other."""

from __future__ import annotations

from typing import Any

import numpy as np
from at2 import AT2Attributor, AT2FeatureExtractor, AT2ScoreEstimator
from at2.tasks import ContextAttributionTask

from benchmarks.peers.runners.runner import Case, Result, run, stripped


class GivenSources(ContextAttributionTask):  # type: ignore[misc]
    """A prompt whose sources are at given places; a source of several places is several here."""

    def __init__(self, model: Any, tokenizer: Any, case: Case) -> None:
        super().__init__(model, tokenizer, source_type="document")
        self.case = case

    @property
    def prompt(self) -> str:
        return str(self.case["message"])

    def _get_document_ranges(self) -> list[tuple[int, int]]:
        offset = self.case["prompt"].index(self.prompt)
        spans = [
            stripped(self.case["prompt"], place)
            for places in self.case["sources"]
            for place in places
        ]
        return [(start - offset, end - offset) for start, end in spans]


def attribute(model: Any, tokenizer: Any, case: Case) -> Result:
    task = GivenSources(model, tokenizer, case)
    if task.input_text != case["prompt"]:
        raise ValueError("AT2's prompt is not that of the answer")
    task.set_generation(case["answer"])
    config = model.config
    features = AT2FeatureExtractor(
        config.num_hidden_layers, config.num_attention_heads, model_type=config.model_type
    )
    scores = AT2Attributor(task, AT2ScoreEstimator(features)).get_attribution_scores()
    ends = np.cumsum([len(places) for places in case["sources"]])[:-1]
    return {"scores": [float(part.sum()) for part in np.split(scores, ends)]}


if __name__ == "__main__":
    run(attribute)
