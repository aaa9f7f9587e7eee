"""The cost of an attribution, sentence by sentence, and its citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribot_rag import Attribution, Attributor
from attribot_rag.attribution import Verdict
from attribot_rag.model.generation import Generation
from attribot_rag.recording import generate_answer
from benchmarks.experiment.setting import CLOCKS
from benchmarks.long.cases import LongCase

CUTS = (2, 4, 8)


@dataclass(frozen=True)
class Measurement:
    """An answer's attribution with the cache of its prompt, which is not counted.

    `cut` is the number of sentences that the answer was cut after, None for the whole answer.
    `sentences` are those that were judged, `seconds` the processor's, `first_seconds` those until
    the first judged sentence was reported. Of citations, see `LongCase.citations`.
    """

    case: int
    cut: int | None
    sentences: int
    response_tokens: int
    tokens: int
    passes: int
    seconds: float
    first_seconds: float
    right: int
    false: int
    missed: dict[str, int]


def recorded_prompt(attributor: Attributor, case: LongCase) -> Generation:
    """A generation of one token, with the cache of the prompt."""
    language_model = attributor.language_model
    prompt_ids = language_model.encode_prompt(case.prompt)
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=1, min_new_tokens=1)
    assert generation is not None
    return generation


def measure(
    attributor: Attributor,
    case: LongCase,
    number: int,
    recorded: Generation,
    cut: tuple[int, int] | None = None,
) -> tuple[Measurement, Sequence[Verdict]]:
    """The measurement of an answer, or of its beginning: so many sentences, so many characters."""
    answer = case.answer if cut is None else case.answer[: cut[1]].rstrip()
    response_ids = attributor.language_model.encode(answer)
    generation = replace(recorded, response_ids=response_ids, cut_at=None, unfinished=False)
    clock, reported = CLOCKS["cpu"], list[float]()

    def report(so_far: Attribution) -> None:
        if any(map(_is_judged, so_far.verdicts)):
            reported.append(clock() - started)

    started = clock()
    attribution = attributor.attribute_generation(
        generation, case.documents, case.prompt, on_sentence=report
    )
    seconds = clock() - started
    provenance = attribution.provenance
    return Measurement(
        case=number,
        cut=cut and cut[0],
        sentences=sum(map(_is_judged, attribution.verdicts)),
        response_tokens=len(response_ids),
        tokens=provenance.prefilled_tokens + provenance.scored_tokens,
        passes=provenance.forward_passes,
        seconds=seconds,
        first_seconds=reported[0] if reported else seconds,
        **vars(case.citations(attribution)),
    ), attribution.verdicts


def ends_of(verdicts: Sequence[Verdict]) -> list[int]:
    """Where the judged sentences end, in characters."""
    return [verdict.end for verdict in verdicts if _is_judged(verdict)]


def _is_judged(verdict: Verdict) -> bool:
    return verdict.kind != "trivial" and verdict.reason != "pending"
