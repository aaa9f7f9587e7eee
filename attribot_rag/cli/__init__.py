"""The command `attribot-rag`: `ask`, and the commands of other packages that are installed."""

from attribot_rag.cli.command import Command
from attribot_rag.cli.program import INTERRUPTED, main
from attribot_rag.cli.terminal import encode_stdout, only_on_stderr

__all__ = ["INTERRUPTED", "Command", "encode_stdout", "main", "only_on_stderr"]
