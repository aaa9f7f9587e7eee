"""The methods that are compared."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import UnsupportedModel
from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Pruned, Scores
from attribot_rag.methods.cost import Cost, Workload, attention
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Attention:
    """The weights that choose the candidates of `auto`, ranked as if they were scores."""

    name = "attention"

    def run(self, scorer: Scorer) -> Scores:
        weights = scorer.attention()
        if weights is None:
            raise UnsupportedModel("this model's attention weights are not seen")
        count = len(weights)
        return Scores(None, tuple((one,) for one in weights), (False,) * count)

    def cost(self, workload: Workload) -> Cost:
        return attention(workload)


METHODS: dict[str, Method] = {
    "auto": Auto(),
    "attention alone": Attention(),
    "masked": Masked(),
    "masked, response only": Masked("response"),
    "masked, rest of the document too": Masked("document"),
    "masked hierarchical, keep 3": Hierarchical(coarse=Masked(), fine=Masked(), shorten=False),
    "masked hierarchical, response only, keep 3": Hierarchical(
        coarse=Masked("response"), fine=Masked("response"), shorten=False
    ),
    "pruning by masked, keep 5": Pruned(Masked(), keep=5),
    "hierarchical, keep 3": Hierarchical(),
    "hierarchical, keep 1": Hierarchical(keep=1),
    "leave-one-out": LeaveOneOut(),
}
