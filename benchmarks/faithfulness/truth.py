"""Exact leave-one-out of every source, computed once and kept as numbers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from attribot_rag import LanguageModel
from attribot_rag.methods import LeaveOneOut
from attribot_rag.scoring import Scorer, ScoringModels
from benchmarks.faithfulness.answers import Answer, per_sentence


@dataclass(frozen=True)
class Truth:
    """Exact scores in nats [num_sources][num_sentences] of one answer.

    `log_likelihoods` [num_sentences] are those of the full prompt; `digest` tells whether the
    scores are still those of the answer at hand; `tokens` and `seconds` are what they cost.
    """

    key: str
    digest: str
    prompt_tokens: int
    response_tokens: int
    log_likelihoods: list[float]
    scores: list[list[float]]
    tokens: int
    seconds: float


class TruthStore:
    """A file of JSON lines, one for each answer; what was computed once is not computed again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        known = [Truth(**json.loads(line)) for line in lines if line.endswith("}")]
        self._known = {(truth.key, truth.digest): truth for truth in known}

    def get(self, answer: Answer, language_model: LanguageModel, models: ScoringModels) -> Truth:
        key = (answer.example.key, answer.digest)
        if key not in self._known:
            self._known[key] = compute(answer, language_model, models)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(self._known[key])) + "\n")
        return self._known[key]


def compute(answer: Answer, language_model: LanguageModel, models: ScoringModels) -> Truth:
    started = time.perf_counter()
    scorer = Scorer(language_model, answer.generation, answer.context, models)
    found = LeaveOneOut().run(scorer)
    return Truth(
        key=answer.example.key,
        digest=answer.digest,
        prompt_tokens=len(answer.generation.prompt_ids),
        response_tokens=len(answer.generation.response_ids),
        log_likelihoods=per_sentence(found.token_log_likelihoods or (), answer.sentence_tokens),
        scores=[per_sentence(row or (), answer.sentence_tokens) for row in found.token_scores],
        tokens=scorer.usage.prefilled_tokens + scorer.usage.scored_tokens,
        seconds=round(time.perf_counter() - started, 3),
    )
