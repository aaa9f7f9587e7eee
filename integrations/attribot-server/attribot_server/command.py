"""The command `attribot-rag serve`."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from attribot_rag import Document, LanguageModel
from attribot_rag.cli import Command, only_on_stderr
from attribot_rag.corpus import read_chunks
from attribot_rag.errors import InvalidInput

TOKEN = "ATTRIBOT_RAG_TOKEN"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        type=Path,
        metavar="FILES",
        help="files and folders that /ask answers from",
    )
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8765, help="port to listen on (default: %(default)s)")
    add("--seconds", type=float, default=60.0, help="time for an answer, and for its attribution")
    add("--waiting", type=int, default=8, help="how many requests may wait or run")
    add("--clients", type=int, default=4, help="how many requests run at the same time")
    add("--max-bytes", type=int, default=1_000_000, help="how large a request may be")
    add("--read-seconds", type=int, default=30, help="how long a client may take to send a request")
    add(
        "--stall-seconds",
        type=float,
        default=120.0,
        help="time without progress until /health fails",
    )
    parser.epilog = (
        f"Clients must send the bearer token in {TOKEN}, if that is set, or one of its lines."
    )


@only_on_stderr()
def serve(options: argparse.Namespace, load: Callable[[], LanguageModel], **_: bool) -> None:
    """Load the model and serve until Ctrl-C or a signal. Raises InvalidInput for bad options.

    `load` returns the model. It is called after the address and the files are checked.
    """
    # Imported here, so that `attribot-rag --help` does not wait for FastAPI.
    from attribot_server.app import Limits, create_app
    from attribot_server.server import run_server

    token = os.environ.get(TOKEN)
    if token is None and options.host not in LOOPBACK:
        raise InvalidInput(
            f"--host {options.host} lets other machines in: set a token in {TOKEN} first"
        )
    check_address(options.host, options.port)
    chunks = without_folders(read_chunks(options.files)) if options.files else []
    # Prevents DNS rebinding: another site's host name may resolve to this machine.
    is_local = token is None and options.host != "::1"
    app = create_app(
        load(),
        chunks=chunks,
        token=token,
        hosts=["localhost", "127.0.0.1"] if is_local else ["*"],
        limits=Limits(
            waiting=options.waiting,
            bytes=options.max_bytes,
            seconds=options.seconds,
            clients=options.clients,
            read_seconds=options.read_seconds,
            stall_seconds=options.stall_seconds,
        ),
        method=options.method,
        annotator=options.annotator,
    )
    run_server(
        app,
        host=options.host,
        port=options.port,
        read_seconds=options.read_seconds,
        stop_seconds=2 * options.seconds * options.clients + 10,
    )


def check_address(host: str, port: int) -> None:
    """Raises InvalidInput if the address cannot be bound, before anything is loaded."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"cannot listen at {host}, port {port}: {error}; pass another --port or --host"
            ) from error


def without_folders(chunks: Sequence[Document]) -> list[Document]:
    """The chunks with paths relative to their common folder: clients must not see full paths."""
    paths = [Path(chunk.metadata["file"]).resolve() for chunk in chunks]
    folder = os.path.commonpath([path.parent for path in paths]) if paths else ""
    shown = []
    for chunk, path in zip(chunks, paths, strict=True):
        name, _, number = str(chunk.id).rpartition("#")
        name = path.name if name == path.name else path.relative_to(folder).as_posix()
        metadata = {**chunk.metadata, "file": path.name}
        shown.append(replace(chunk, id=f"{name}#{number}", metadata=metadata))
    return shown


SERVE = Command(
    add_arguments,
    serve,
    summary="attribute answers for programs in any language, over HTTP",
    description="POST /attribute takes a prompt, a response and documents, POST /ask a question; "
    "both return JSON. The page at / takes a question, and shows what caused the answer.",
)
