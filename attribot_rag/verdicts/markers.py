"""An audit of the citation markers that a model wrote itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attribot_rag.attribution import Attribution, Marker

MARKER = re.compile(
    r"[\[【](?:source|document|doc|passage)?\s*(\d{1,3}(?:\s*,\s*\d{1,3})*)[\]】]", re.IGNORECASE
)


def audit(
    attribution: Attribution,
    characters: tuple[int, int],
    tokens: tuple[int, ...],
    cited: Sequence[int],
    min_effect: float,
) -> Iterator[Marker]:
    """The markers among some characters of the response, numbers counting documents from 1.

    A marker is supported if a source of its document is among those `cited`, or worth `min_effect`
    nats to `tokens`, what it marks without the markers. Where the sources were not scored, their
    groups count.
    """
    supporting = {one for source_id in cited for one in attribution.sources[source_id].documents}
    for match in MARKER.finditer(attribution.response, *characters):
        for number in map(int, re.findall(r"\d+", match.group(1))):
            document = number - 1 if 1 <= number <= len(attribution.documents) else None
            supported = None
            if document in supporting:
                supported = True
            elif document is not None:
                effect = _effect(attribution, document, tokens)
                supported = None if effect is None else effect >= min_effect
            yield Marker(
                start=match.start(),
                end=match.end(),
                number=number,
                document=document,
                supported=supported,
            )


def _effect(attribution: Attribution, document: int, tokens: tuple[int, ...]) -> float | None:
    """The largest effect in nats of a source of the document, or of a group that holds it.

    None if nothing was scored, or if there is no text that the marker could be about.
    """
    if not tokens:
        return None
    if document in attribution.not_located:
        return 0.0
    own = {source.id for source in attribution.sources if document in source.documents}
    rows = [row for i in sorted(own) if (row := attribution.token_scores[i]) is not None]
    rows = rows or [group.token_scores for group in attribution.groups if own & {*group.source_ids}]
    return max((sum(row[i] for i in tokens) for row in rows), default=None)
