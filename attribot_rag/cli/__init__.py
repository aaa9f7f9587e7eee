"""The command `attribot-rag`: ask, batch, serve."""

from attribot_rag.cli.command import main

__all__ = ["main"]
