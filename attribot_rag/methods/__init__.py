"""Methods decide which ablations a scorer computes; they never touch the model."""

from attribot_rag.methods.auto import Auto
from attribot_rag.methods.base import GroupScore, Method, Scores
from attribot_rag.methods.factory import METHODS, make_method
from attribot_rag.methods.hierarchical import Hierarchical, Pruned
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.thorough import Thorough

__all__ = [
    "METHODS",
    "Auto",
    "GroupScore",
    "Hierarchical",
    "LeaveOneOut",
    "Masked",
    "Method",
    "Patching",
    "Proxy",
    "Pruned",
    "Scores",
    "Thorough",
    "make_method",
]
