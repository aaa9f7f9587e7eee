"""Leave-one-out: each source is removed exactly, once."""

from __future__ import annotations

from attribot_rag.methods.base import SourceScores
from attribot_rag.methods.progress import ablation_progress
from attribot_rag.scoring import Scorer


def leave_one_out(scorer: Scorer, *, progress: bool = False) -> SourceScores:
    """LOO errors of every source (AttriBoT, section 2.1), one ablation each.

    tau_i = log p(R | Q, C) - log p(R | Q, C without s_i), per response token; positive where the
    source supports the response.
    """
    source_ids = [source.id for source in scorer.context.sources]
    with ablation_progress(len(source_ids), shown=progress) as advance:
        found = scorer.score([(source_id,) for source_id in source_ids], advance=advance)
    return SourceScores(
        method="leave_one_out",
        token_log_likelihoods=tuple(found.full.tolist()),
        token_scores=tuple(map(tuple, (found.full - found.ablated).tolist())),
        exact=found.in_step,
    )
