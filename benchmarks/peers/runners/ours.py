"""attribot-rag itself, with the method that is named after the model's folder."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from attribot_rag import Attributor, ContextOptions
from benchmarks.peers.runners.runner import Case, Result, run


def attribute(method: str, model: Any, tokenizer: Any, case: Case) -> Result:
    messages = [{"role": "user", "content": case["message"]}]
    texts = case["source_texts"]
    splitter = {"".join(text): text for text in texts}.__getitem__ if texts else "sentence"
    context = ContextOptions(source_unit=splitter)
    attributor = Attributor(model, tokenizer, method=method, context=context, progress=False)
    attribution = attributor.attribute(messages, case["answer"], case["documents"])
    places = [
        [[occurrence.start, occurrence.end] for occurrence in source.occurrences]
        for source in attribution.sources
    ]
    if places != case["sources"]:
        raise ValueError("the sources are not those of the case")
    scores = [attribution.score(source.id) for source in attribution.sources]
    return {"scores": scores}


if __name__ == "__main__":
    run(partial(attribute, sys.argv[4]))
