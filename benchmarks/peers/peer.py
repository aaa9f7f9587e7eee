"""The peers: what each needs, what runs it, and what its user sees."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.evaluation.grid import EXACT


@dataclass(frozen=True)
class Peer:
    """A method of a library, as a row of the table.

    `runner` is the module that runs it, with `arguments`, in an environment with `requirements`;
    this one, if there are none. `scores` names what the row is made of in the runner's results.
    `section` of the page holds the code that its user writes. `evaluated` is its name in an
    evaluation's results, which are taken where it scored the same answers.
    """

    name: str
    runner: str
    section: str
    shows: str
    requirements: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    scores: str = "scores"
    evaluated: str | None = None

    @property
    def file(self) -> str:
        """The name of what is kept of it: peers that share a run share the file."""
        return "_".join((self.runner.removeprefix(""), *self.arguments))


_OURS = "verdict for each sentence, citations, scores of any span, highlighted text"

LEAVE_ONE_OUT = Peer(
    "attribot-rag, `leave_one_out`",
    "ours",
    "attribot-rag",
    _OURS,
    arguments=("leave_one_out",),
    evaluated=EXACT,
)
CITATIONS = Peer(
    "CitationQueryEngine",
    "citation_query_engine",
    "LlamaIndex's CitationQueryEngine",
    "numbers of chunks, as the model wrote them",
    ("llama-index-core", "llama-index-llms-huggingface"),
)
PEERS = (
    Peer("attribot-rag, `thorough`", "ours", "attribot-rag", _OURS, arguments=("thorough",)),
    Peer(
        "attribot-rag, `masked`",
        "ours",
        "attribot-rag",
        _OURS,
        arguments=("masked",),
        evaluated="masked",
    ),
    Peer(
        "AT2, untrained",
        "at2",
        "AT2",
        "scores of any span, highlighted text",
        ("at2==0.0.1",),
    ),
    Peer(
        "FlashTrace",
        "flashtrace",
        "FlashTrace",
        "scores of tokens, highlighted text",
        ("flashtrace==0.1.1",),
    ),
    Peer(
        "ContextCite",
        "context_cite",
        "ContextCite",
        "scores of any span",
        ("context-cite==0.0.4",),
    ),
    Peer("AttriBoT's loop", "loop", "AttriBoT", "scores of the answer"),
    Peer("ARC-JSD", "loop", "ARC-JSD", "scores of the answer", scores="divergences"),
    LEAVE_ONE_OUT,
    CITATIONS,
)
