"""The comparison with other libraries: our own part of it, without any of them."""

import math

import pytest
from support.tiny_models import byte_level

from attribot_rag import Attributor
from benchmarks.peers.runners.loop import attribute


def test_the_loop_scores_as_exact_leave_one_out_does() -> None:
    language_model = byte_level()
    documents = ["The door is mint. ", "Fog is rare. "]
    prompt, answer = f"{''.join(documents)}Which door?", "Mint."
    attribution = Attributor(
        language_model, method="leave_one_out", verdicts=None, progress=False
    ).attribute(prompt, answer, documents)
    sources = [
        [[place.start, place.end] for place in source.occurrences] for source in attribution.sources
    ]
    case = {"prompt": prompt, "answer": answer, "sources": sources}
    result = attribute(language_model.model, language_model.tokenizer, case)
    exact = [attribution.score(source.id) for source in attribution.sources]
    assert result["scores"] == pytest.approx(exact, abs=1e-4)
    assert all(0 <= value <= len(answer) * math.log(2) for value in result["divergences"])
