"""Attributes logged answers, from a file into a folder.

The command is `attribot-rag batch`. `attribot_batch.distributed` uses a Ray cluster, and needs the
extra `ray`.
"""

from attribot_batch.report import Statistics
from attribot_batch.run import run_batch
from attribot_batch.workers import WorkerLost

__version__ = "0.1.0"

__all__ = ["Statistics", "WorkerLost", "__version__", "run_batch"]
