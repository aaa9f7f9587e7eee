"""A command of `attribot-rag`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command of `attribot-rag`; a package has one as an entry point, `attribot_rag.commands`.

    Args:
        add_arguments: Adds the command's own arguments to its parser. All commands have those that
            choose the model, the method and the annotator.
        run: Called with the options, a function that loads their model, and `shown`, whether the
            terminal sees progress. It writes its result to stdout, and all else to stderr.
            A number that it returns is the exit status.
        summary: The command in a line, for the list of commands.
        description: What it does, for its own help.
    """

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[..., int | None]
    summary: str
    description: str
