"""Numbers that the model wrote itself, judged by exact leave-one-out of the answer with them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attribot_rag import Attributor, load_model
from attribot_rag.context import DocumentSpan
from benchmarks.peers.cases import Case
from benchmarks.peers.peer import Peer
from benchmarks.peers.table import Row

Chunk = Sequence[int]
"""Document, first character, last character + 1."""


def cited_row(
    peer: Peer, cases: Sequence[Case], results: Mapping[str, Any], folder: Path, lines: int | None
) -> Row:
    """The row of answers with a number that names a chunk: its sentences score 1, others 0."""
    documents = {case.key: case.documents for case in cases}
    scores, truth, seconds = {}, {}, {}
    for key, one in results.items():
        seconds[key] = one["seconds"]
        cited = [one["chunks"][i - 1] for i in one["cited"] if 1 <= i <= len(one["chunks"])]
        if cited:
            exact = _exact(key, one, documents[key], folder / f"{peer.file}_truth.json")
            truth[key] = exact["scores"]
            spans = [[DocumentSpan(*span) for span in source] for source in exact["spans"]]
            scores[key] = scores_of(cited, spans)
    return Row(peer.name, scores, seconds, lines, peer.shows, truth)


def scores_of(cited: Collection[Chunk], sources: Sequence[Collection[DocumentSpan]]) -> list[float]:
    """1 for each source that overlaps a cited chunk, 0 for the others."""
    return [
        float(
            any(
                span.document == document and span.start < end and start < span.end
                for span in spans
                for document, start, end in cited
            )
        )
        for spans in sources
    ]


def _exact(key: str, one: Mapping[str, Any], documents: Sequence[str], path: Path) -> Any:
    """Scores and places of sources in the engine's own prompt, for its answer; kept at `path`."""
    known = json.loads(path.read_text()) if path.exists() else {}
    if known.get(key, {}).get("digest") != one["digest"]:
        attributor = Attributor(load_model(), method="leave_one_out", verdicts=None, progress=False)
        messages = [{"role": "user", "content": one["prompt"]}]
        found = attributor.attribute(messages, one["answer"], documents)
        known[key] = {
            "digest": one["digest"],
            "scores": [None if row is None else sum(row) for row in found.token_scores],
            "spans": [
                [
                    [span.document, span.start, span.end]
                    for place in source.occurrences
                    for span in place.spans
                ]
                for source in found.sources
            ],
        }
        path.write_text(json.dumps(known))
    return known[key]
