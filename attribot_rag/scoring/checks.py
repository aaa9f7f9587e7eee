"""What is checked of log-likelihoods before anyone sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringFailed
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.implementations.selection import ScoringModels
from attribot_rag.scoring.log_likelihoods import Matrix
from attribot_rag.scoring.row import Row


def check_finite(
    scored: Matrix,
    ablations: Sequence[Ablation],
    response_ids: Sequence[int],
    language_model: LanguageModel,
) -> None:
    """Raises ScoringFailed for a value that is not finite; the first row is the full prompt."""
    bad = np.argwhere(~np.isfinite(scored))
    if len(bad):
        row, token = (int(index) for index in bad[0])
        what = f"without {ablations[row - 1]}" if row else "of the full prompt"
        text = language_model.decode([response_ids[token]])
        raise ScoringFailed(
            f"the log-likelihood {what} is {scored[row, token]} at response token {token} "
            f"({text!r}); the model's weights or its {language_model.dtype} overflow: "
            "try float32 or bfloat16"
        )


def difference_to_model(
    models: ScoringModels, generation: Generation, rows: Sequence[Row], scored: Matrix
) -> float:
    """The largest difference, in nats at a token, to the user's own model.

    Of the row in which the log-likelihoods change most; the first row is that of the full prompt.
    """
    changes = np.abs(scored - scored[0]).sum(axis=1)
    index = int(changes.argmax())
    with torch.no_grad():
        reference = Reference(models.original, generation)
        truth = reference.log_likelihoods([rows[index]]).double().numpy()[0]
    return float(np.abs(truth - scored[index]).max())
