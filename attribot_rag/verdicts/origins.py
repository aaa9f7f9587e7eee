"""Where a sentence comes from that does not need the context: earlier sentences, earlier turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.context import Ablation
from attribot_rag.scoring import Scorer

_MOST = 0.5


@dataclass(frozen=True)
class Origin:
    """The index of the earlier sentence that matters most, or None for the conversation.

    `effect` is what taking out all earlier sentences, or the conversation, costs, in nats.
    """

    sentence: int | None
    effect: float


class Origins:
    """Takes earlier sentences and turns out of a prompt that has lost its documents already.

    Without the documents, what an earlier sentence said cannot be read there again.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._bare = scorer.without(scorer.context.whole)

    def find(
        self, tokens: Sequence[int], earlier: Mapping[int, Sequence[int]]
    ) -> Sequence[Origin] | None:
        """The conversation and the earlier sentence that matter most to these response tokens.

        `earlier` are the tokens of sentences before, by their index. None if the budget ran out.
        """
        if self._bare is None:
            return None
        first, last = tokens[0], tokens[-1] + 1
        scorer = self._bare.continued(first, last)
        if scorer is None:
            return None
        offset = len(self._bare.generation.prompt_ids)
        spans = scorer.context.prompt.spans
        places = {
            index: (spans[offset + held[0]][0], spans[offset + held[-1]][1])
            for index, held in earlier.items()
        }
        everything = Ablation(characters=tuple(places.values()))
        others = [
            Ablation(characters=tuple(place for one, place in places.items() if one != index))
            for index in places
        ]
        ablations = [Ablation(characters=scorer.context.conversation), everything, *others]
        changes = scorer.score(ablations).changes
        if any(row is None for row in changes):
            return None
        wanted = [token - first for token in tokens]
        said, all_earlier, *without = [sum(row[i] for i in wanted) for row in changes if row]
        found = [Origin(None, said)]
        # A sentence's own share is what is not lost as long as it alone is left.
        shares = {index: all_earlier - lost for index, lost in zip(places, without, strict=True)}
        most = _MOST * all_earlier
        enough = [index for index, share in shares.items() if share >= most]
        if shares:
            chosen = enough[0] if enough else max(shares, key=lambda index: shares[index])
            found.append(Origin(chosen, all_earlier))
        return found
