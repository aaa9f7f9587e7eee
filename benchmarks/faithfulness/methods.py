"""The methods that are compared."""

from __future__ import annotations

from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Pruned

METHODS: dict[str, Method] = {
    "auto": Auto(),
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
