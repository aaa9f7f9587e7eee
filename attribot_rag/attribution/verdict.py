"""What a reader may believe of one sentence of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "grounded",
    "redundant",
    "unsupported",
    "follows",
    "conversation",
    "reasoning",
    "trivial",
    "open",
]
Relation = Literal["each", "either", "together"]
Reason = Literal["scattered", "not_located", "budget"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on the characters [start, end) of the response.

    - grounded: `source_ids` stand out, each with an effect that matters;
    - redundant: no single source does, but taking out all of `source_ids` explains the drop: with
      'either' of them alone the sentence stands, or only with all of them 'together' (`relation`);
    - follows: from sentence `follows` (its index), not from the context directly;
    - conversation: from earlier turns;
    - unsupported: nothing that was retrieved or said made the model say it;
    - reasoning: the model's thinking, which is not judged; trivial: a greeting and the like;
    - open: it could not be decided, for a `reason`: the context matters as a whole, but no part of
      it stands out ('scattered'); documents were not found in the prompt, so that what they do is
      not known ('not_located'); or the 'budget' ran out.

    `effect` is the sum of what each cited source is worth to the sentence, or what taking out a
    group costs it, `reliance` what taking out the whole context costs it, both in nats.
    """

    start: int
    end: int
    kind: Kind
    source_ids: tuple[int, ...] = ()
    relation: Relation = "each"
    effect: float | None = None
    reliance: float | None = None
    follows: int | None = None
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A citation marker that the model wrote itself, at the characters [start, end).

    `number` counts the documents from 1; `document` is its index, None if there is no such one.
    `supported` says whether that document has an effect on the sentence, None if that was not
    measured.
    """

    start: int
    end: int
    number: int
    document: int | None
    supported: bool | None
