"""The command `attribot-rag`, also as `python -m attribot_rag`."""

import signal
import sys

from rich.console import Console

_INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended
_SILENT = {"-h", "--help", "--version", "--no-progress"}


def main() -> int:
    """Run the command. Its imports take seconds, so a terminal shows a message meanwhile."""
    told = sys.stderr.isatty() and not _SILENT & set(sys.argv)
    try:
        with Console(stderr=True, quiet=not told).status("Starting …"):
            from attribot_rag import cli
    except KeyboardInterrupt:
        return _INTERRUPTED
    status = cli.main()
    if status == cli.INTERRUPTED:  # what still runs may take a while; another Ctrl-C ends it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


if __name__ == "__main__":
    sys.exit(main())
