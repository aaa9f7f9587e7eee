"""Methods decide which ablations a scorer computes. They never use the model directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily

if TYPE_CHECKING:
    from attribot_rag.methods.auto import METHODS as METHODS
    from attribot_rag.methods.auto import Auto as Auto
    from attribot_rag.methods.auto import make_method as make_method
    from attribot_rag.methods.base import GroupScore as GroupScore
    from attribot_rag.methods.base import Method as Method
    from attribot_rag.methods.base import Scores as Scores
    from attribot_rag.methods.hierarchical import Hierarchical as Hierarchical
    from attribot_rag.methods.hierarchical import Pruned as Pruned
    from attribot_rag.methods.hierarchical import Thorough as Thorough
    from attribot_rag.methods.leave_one_out import LeaveOneOut as LeaveOneOut
    from attribot_rag.methods.leave_one_out import Masked as Masked
    from attribot_rag.methods.leave_one_out import Patching as Patching
    from attribot_rag.methods.proxy import Proxy as Proxy
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            ".auto": ["METHODS", "Auto", "make_method"],
            ".base": ["GroupScore", "Method", "Scores"],
            ".hierarchical": ["Hierarchical", "Pruned", "Thorough"],
            ".leave_one_out": ["LeaveOneOut", "Masked", "Patching"],
            ".proxy": ["Proxy"],
        },
    )
