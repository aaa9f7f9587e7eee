"""Attribution of logged answers, from a file into a folder, however many they are.

`attribot-rag batch` is the command for it; `attribot_batch.distributed` has a Ray cluster do it,
which needs the extra `ray`.
"""

from attribot_batch.run import run_batch
from attribot_batch.statistics import Statistics
from attribot_batch.workers import WorkerLost

__version__ = "0.1.0"

__all__ = ["Statistics", "WorkerLost", "__version__", "run_batch"]
