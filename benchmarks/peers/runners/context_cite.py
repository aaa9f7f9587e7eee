"""ContextCite (context-cite), with the sources that all others score."""

from __future__ import annotations

from itertools import chain
from typing import Any

from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner

from benchmarks.peers.runners.runner import Case, Result, run, without

TEMPLATE = (
    "Answer the question based on the provided context:\n\nContext:\n{context}\n\nQuestion: {query}"
)


class GivenSources(BaseContextPartitioner):  # type: ignore[misc]
    """Sources at given places of the context."""

    def __init__(self, context: str, places: list[list[list[int]]]) -> None:
        super().__init__(context)
        self.context: str = context
        self.places = places

    @property
    def num_sources(self) -> int:
        return len(self.places)

    def split_context(self) -> None:
        pass

    def get_source(self, index: int) -> str:
        start, end = self.places[index][0]
        return self.context[start:end]

    def get_context(self, mask: Any = None) -> str:
        if mask is None:
            return self.context
        gone = [self.places[index] for index, kept in enumerate(mask) if not kept]
        return without(self.context, chain.from_iterable(gone))


def attribute(model: Any, tokenizer: Any, case: Case) -> Result:
    offset = case["prompt"].index(case["context"])
    places = [[[at - offset for at in place] for place in places] for places in case["sources"]]
    citer = ContextCiter(
        model,
        tokenizer,
        case["context"],
        case["question"],
        prompt_template=TEMPLATE,
        partitioner=GivenSources(case["context"], places),
    )
    _, prompt = citer._get_prompt_ids(return_prompt=True)
    if prompt != case["prompt"]:
        raise ValueError("ContextCite's prompt is not that of the answer")
    # An answer that is there already can be given in no other way (MadryLab/context-cite#4).
    citer._cache["output"] = prompt + case["answer"]
    return {"scores": citer.get_attributions(verbose=False).tolist()}


if __name__ == "__main__":
    run(attribute)
