"""The context of a shortened prompt."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from rapidfuzz.distance import Indel

from attribot_rag.context.ablation import Ablation
from attribot_rag.context.context import Context
from attribot_rag.context.document import Occurrence
from attribot_rag.context.intervals import Interval, subtract
from attribot_rag.context.tokens import TokenizedText
from attribot_rag.model.language_model import LanguageModel


def reduced(context: Context, removed: Ablation, language_model: LanguageModel) -> Context:
    """The context of the prompt without the ablated text; sources keep their ids.

    A removed source has no occurrences.
    """
    cut = context.removed(removed)
    if not cut:
        return context
    ids = context.ablate(removed, language_model).ids
    prompt = TokenizedText.of(ids, language_model)
    old = context.prompt.text
    kept = [index for start, end in subtract((0, len(old)), cut) for index in range(start, end)]
    if "".join(map(old.__getitem__, kept)) != prompt.text:
        # Whole tokens were dropped, whose ends are not the ends of the removed text.
        steps = [step for step in Indel.opcodes(old, prompt.text) if step.tag == "equal"]
        kept = [index for step in steps for index in range(step.src_start, step.src_end)]

    def moved(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        shifted = ((bisect_left(kept, start), bisect_left(kept, end)) for start, end in intervals)
        return tuple((start, end) for start, end in shifted if start < end)

    sources = tuple(
        replace(
            source,
            occurrences=tuple(
                Occurrence(*interval, occurrence.spans)
                for occurrence in source.occurrences
                if source.id not in removed.source_ids
                for interval in moved([(occurrence.start, occurrence.end)])
            ),
        )
        for source in context.sources
    )
    return replace(
        context,
        prompt=prompt,
        sources=sources,
        regions=moved(context.regions),
        conversation=moved(context.conversation),
        message=moved(context.message),
    )
