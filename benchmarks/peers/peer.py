"""The peers: what each needs, and what runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A method of a library, as a row of the table.

    `runner` is the module that runs it, with `arguments`, in an environment with `requirements`;
    this one, if there are none. `scores` names what the row is made of in the runner's results.
    """

    name: str
    runner: str
    requirements: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    scores: str = "scores"

    @property
    def file(self) -> str:
        """The name of what is kept of it: peers that share a run share the file."""
        return "_".join((self.runner, *self.arguments))


LEAVE_ONE_OUT = Peer("attribot-rag, `leave_one_out`", "ours", arguments=("leave_one_out",))
PEERS = (
    Peer("attribot-rag, `auto`, the default", "ours", arguments=("auto",)),
    Peer("attribot-rag, `thorough`", "ours", arguments=("thorough",)),
    Peer("attribot-rag, `masked`", "ours", arguments=("masked",)),
    Peer("AT2, untrained", "at2", ("at2==0.0.1",)),
    Peer("FlashTrace", "flashtrace", ("flashtrace==0.1.1",)),
    Peer("ContextCite", "context_cite", ("context-cite==0.0.4",)),
    Peer("AttriBoT's loop", "loop"),
    Peer("ARC-JSD", "loop", scores="divergences"),
    LEAVE_ONE_OUT,
)
