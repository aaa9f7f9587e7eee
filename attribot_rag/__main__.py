"""The command `attribot-rag`, also as `python -m attribot_rag`."""

import sys

_SILENT = {"-h", "--help", "--version", "--no-progress"}


def main() -> int:
    """Run the command; what it needs takes seconds to import, which a terminal is told."""
    if sys.stderr.isatty() and not _SILENT & set(sys.argv):
        sys.stderr.write("Importing PyTorch and Transformers ...\n")
    from attribot_rag import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
