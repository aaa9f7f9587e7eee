"""The command `attribot-rag`: ask, batch, evaluate, serve."""

from attribot_rag.cli.command import main

__all__ = ["main"]
