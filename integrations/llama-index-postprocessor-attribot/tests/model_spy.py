"""What a model was given and what it gave, seen from outside."""

from typing import Any

import pytest
import torch
from llama_index.postprocessor.attribot import AttributionPostprocessor

from attribot_rag.runtime import Answer

Ids = tuple[tuple[int, ...], tuple[int, ...]]


class Spy:
    """The ids of every prompt and answer in `calls`, without the end of sequence."""

    def __init__(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Ids] = []
        original = type(model)._sample
        eos = model.generation_config.eos_token_id

        def sample(model: Any, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            output = original(model, input_ids, *args, **kwargs)
            (sequence,) = getattr(output, "sequences", output).tolist()
            answer = sequence[input_ids.shape[1] :]
            end = answer.index(eos) if eos in answer else len(answer)
            self.calls.append((tuple(input_ids[0].tolist()), tuple(answer[:end])))
            return output

        monkeypatch.setattr(type(model), "_sample", sample)


def scored_ids(
    postprocessor: AttributionPostprocessor, monkeypatch: pytest.MonkeyPatch
) -> list[Ids]:
    """Filled with the prompt and the answer of everything that is going to be scored."""
    scored: list[Ids] = []
    services = postprocessor._services
    make = services.service_for

    def watched(language_model: Any) -> Any:
        service = make(language_model)
        attributor = service.attributor
        attribute = type(attributor).attribute_answer

        def seen(answer: Answer, *args: Any) -> Any:
            assert answer.transcript is not None
            generation = answer.transcript.generation
            scored.append((generation.prompt_ids, generation.response_ids))
            return attribute(attributor, answer, *args)

        attributor.attribute_answer = seen
        return service

    monkeypatch.setattr(services, "service_for", watched)
    return scored
