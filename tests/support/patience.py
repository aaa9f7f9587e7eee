"""How long tests wait: `ATTRIBOT_RAG_PATIENCE` multiplies every limit, for busy machines."""

import os

PATIENCE = float(os.environ.get("ATTRIBOT_RAG_PATIENCE", "1"))


def scaled(limit: float) -> float:
    """A limit of time, in whatever unit, for this machine."""
    return limit * PATIENCE
