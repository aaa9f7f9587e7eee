"""Stdout for the result alone, and stderr for all else."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from transformers.utils import logging as transformers_logging

from attribot_rag.result.escaping import visible


def with_flags(message: str) -> str:
    """A message of the library, which names its options as the command line calls them."""
    return message.replace("max_new_tokens", "--max-new-tokens")


class _Visible(logging.Formatter):
    """A log's line may hold the name of a file, or a part of a text."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@contextmanager
def only_on_stderr() -> Iterator[None]:
    """Redirect output to stderr meanwhile, silence Transformers, show what logs would send."""
    handler = logging.lastResort or logging.NullHandler()
    formatter = handler.formatter
    handler.setFormatter(_Visible())
    verbosity = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        handler.setFormatter(formatter)
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def encode_stdout(*, encoding: str | None = None, errors: str | None = None) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors=errors)


def discard_stdout() -> None:
    """Python would write the rest to it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
