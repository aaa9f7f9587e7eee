"""Does support tell right answers from wrong ones? python -m benchmarks.support.estimate ANSWERS...

Reads what `benchmarks.support.answers` wrote. An answer is right if a gold answer is in its
first judged sentence. The regressions of attribot_rag.support.support are fitted on one half of
the articles, and reported on the other half.

labels.json has two readings of the right answers to short passages: does the sentence say only what
the passages say ("all"), or does it add something ("adds")? Both are by large language models that
did not see the estimate.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from attribot_rag import Attribution
from attribot_rag.attribution import ResponseText
from attribot_rag.support import Claim, RetrievedText
from attribot_rag.support.support import (
    REGRESSION,
    Regression,
    Signals,
    best_passages,
    signals_of,
    support_of,
)

LABELS = Path(__file__).with_name("labels.json")
RIGHT_FLAGGED = 0.1
NUM_SAMPLES = 2_000


@dataclass(frozen=True)
class Case:
    """An answer with its signals, None if it cites nothing, and no text says it.

    `support` and `score` are the library's own, 0 without a text.
    """

    key: str
    article: str
    is_right: bool
    signals: Signals | None
    kind: str
    support: str
    score: float
    likely: float


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file of answers; those without a judged sentence are left out."""
    for line in path.open(encoding="utf-8"):
        data = json.loads(line)
        if data["attribution"] is not None and (case := _case(data)) is not None:
            yield case


def _case(data: dict[str, Any]) -> Case | None:
    attribution = Attribution.from_dict(data["attribution"])
    judged = (v for v in attribution.verdicts if v.kind not in ("trivial", "reasoning"))
    verdict = next(judged, None)
    if verdict is None:
        return None
    text = attribution.response[verdict.start : verdict.end]
    response = ResponseText(attribution.response, attribution.token_spans)
    columns = response.tokens_in(verdict.start, verdict.end)
    likely = float(np.mean([attribution.token_log_likelihoods[index] for index in columns]))
    retrieved = RetrievedText(attribution.documents, attribution.sources, "en")
    claim = Claim(start=0, text=text, question=data["text"].strip())
    passages = retrieved.passages_of(verdict.traced(attribution.verdicts).source_ids)
    likelihoods = data["asked"]["cited"]
    passages = passages or best_passages(claim, retrieved)[0]
    signals = None
    cited = replace(verdict, source_ids=verdict.traced(attribution.verdicts).source_ids)
    support = support_of(claim, cited, retrieved, lambda text: likelihoods)
    if passages:
        signals = signals_of(claim, passages, retrieved)
    is_right = any(f" {plain(gold)} " in f" {plain(text)} " for gold in data["gold"])
    score = support.score or 0.0
    return Case(
        data["key"], data["article"], is_right, signals, verdict.kind, support.kind, score, likely
    )


def plain(text: str) -> str:
    """The words of a text without articles, as SQuAD's own measure compares them."""
    return " ".join(re.findall(r"\w+", re.sub(r"\b(a|an|the)\b", " ", text.lower())))


def halves(cases: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """The cases to fit on, and those to report on: the last and the first half of the articles.

    By their names, so that more answers do not move an article from one half to the other.
    """
    names = sorted({case.article for case in cases})
    reported = names[: len(names) // 2]
    return (
        [case for case in cases if case.article not in reported],
        [case for case in cases if case.article in reported],
    )


def fitted(cases: Sequence[Case]) -> Regression:
    """The regression on the library's signals, of the cases that have them."""
    names = [*REGRESSION.weights]
    known = [case for case in cases if case.signals]
    values = np.array([[getattr(case.signals, name) for name in names] for case in known])
    spread = values.std(axis=0) + 1e-6
    model = LogisticRegression(C=0.3).fit(values / spread, [case.is_right for case in known])
    weights = model.coef_[0] / spread
    named = {name: round(float(w), 3) for name, w in zip(names, weights, strict=True)}
    return Regression(round(float(model.intercept_[0]), 3), named)


def scores(cases: Sequence[Case], regression: Regression) -> list[float]:
    """The scores of cases; 0 without a text that could say the sentence."""
    return [0.0 if case.signals is None else regression.score(case.signals) for case in cases]


def area(scores: Sequence[float], is_right: Sequence[bool]) -> float:
    """The area under the curve of right against wrong answers."""
    values, right = np.array(scores), np.array(is_right)
    above = values[right][:, None] > values[~right]
    equal = values[right][:, None] == values[~right]
    return float((above + 0.5 * equal).mean())


def limit(scores: Sequence[float], is_right: Sequence[bool]) -> float:
    """The score below which one in ten right answers lies."""
    right = sorted(score for score, right in zip(scores, is_right, strict=True) if right)
    return right[int(RIGHT_FLAGGED * len(right))]


def interval(values: Sequence[float], is_right: Sequence[bool]) -> tuple[float, float]:
    """The 95 % interval of the area, by resampling the answers."""
    drawn, scores, right = np.random.default_rng(0), np.array(values), np.array(is_right)
    areas = []
    for _ in range(NUM_SAMPLES):
        chosen = drawn.integers(0, len(scores), len(scores))
        if 0 < right[chosen].sum() < len(scores):
            areas.append(area(scores[chosen].tolist(), right[chosen].tolist()))
    low, high = np.quantile(areas, (0.025, 0.975))
    return float(low), float(high)


def report(name: str, fit: Sequence[Case], held_out: Sequence[Case]) -> None:
    right = [case.is_right for case in held_out]
    print(f"{name}: {len(held_out)} answers reported, {sum(right)} right; {len(fit)} fitted")
    print(f"  verdicts {dict(Counter(case.kind for case in held_out))}")
    for is_right in (True, False):
        kinds = Counter(case.support for case in held_out if case.is_right == is_right)
        shares = (f"{kind} {kinds[kind] / kinds.total():.2f}" for kind in kinds)
        print(f"  {'right' if is_right else 'wrong'}: {', '.join(shares)}")
    for label, readings in (("all", ["all", "all"]), ("adds", ["adds", "adds"])):
        read = json.loads(LABELS.read_text())
        agreed = [case for case in held_out if case.is_right and read.get(case.key) == readings]
        flagged = sum(case.support != "full" for case in agreed)
        print(f"  right, and both readings are {label!r}: {flagged} of {len(agreed)} not full")
    own = [case.likely for case in held_out]
    print(f"  own likelihood {area(own, right):.3f} [{_shown(interval(own, right))}]")
    library = [case.score for case in held_out]
    print(f"  as installed {area(library, right):.3f} [{_shown(interval(library, right))}]")
    regression = fitted(fit)
    chosen, of_fit = scores(held_out, regression), scores(fit, regression)
    least = limit(of_fit, [case.is_right for case in fit])
    flags = [score < least for score in chosen]
    wrong = np.mean([flag for flag, good in zip(flags, right, strict=True) if not good])
    good = np.mean([flag for flag, good in zip(flags, right, strict=True) if good])
    print(
        f"  fitted again {area(chosen, right):.3f} [{_shown(interval(chosen, right))}], below "
        f"{least:.2f}: {wrong:.2f} of wrong, {good:.2f} of right; {regression}"
    )


def _shown(interval: tuple[float, float]) -> str:
    return ", ".join(f"{end:.2f}" for end in interval)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers", type=Path, nargs="+")
    options = parser.parse_args()
    for path in options.answers:
        fit, held_out = halves(list(cases(path)))
        report(path.stem, fit, held_out)
        report(f"{path.stem}, halves exchanged", held_out, fit)


if __name__ == "__main__":
    main()
