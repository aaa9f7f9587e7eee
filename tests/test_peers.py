"""The comparison with other libraries: our own part of it, without any of them."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.tiny_models import byte_level

from attribot_rag import Attributor
from benchmarks.peers.peer import Peer, PeerFailed, python_for
from benchmarks.peers.peer import attribute as run_peer
from benchmarks.peers.runners.loop import attribute
from benchmarks.peers.runners.runner import stripped, summed, without


def test_a_token_counts_for_the_source_in_which_it_ends() -> None:
    text = "One. Two."
    offsets = [(0, 3), (3, 4), (4, 8), (8, 9), (9, 9)]
    sources = [[[0, 5]], [[5, len(text)]]]
    assert summed([1, 2, 4, 8, 16], offsets, sources) == [3, 12]
    assert summed([1, 2, 4, 8, 16], offsets, [[[0, 4], [8, 9]]]) == [11]


def test_a_removed_source_takes_all_its_places_with_it() -> None:
    assert without("One. Two. One. End.", [[0, 5], [10, 15]]) == "Two. End."
    assert stripped("One. Two. ", [3, 10]) == (3, 9)


def test_the_loop_scores_as_exact_leave_one_out_does() -> None:
    language_model = byte_level()
    documents = ["The door is mint. ", "Fog is rare. "]
    prompt, answer = f"{''.join(documents)}Which door?", "Mint."
    attribution = Attributor(
        language_model, method="leave_one_out", verdicts=None, progress=False
    ).attribute(prompt, answer, documents)
    sources = [
        [[place.start, place.end] for place in source.occurrences] for source in attribution.sources
    ]
    case = {"prompt": prompt, "answer": answer, "sources": sources}
    result = attribute(language_model.model, language_model.tokenizer, case)
    exact = [sum(row or ()) for row in attribution.token_scores]
    assert result["scores"] == pytest.approx(exact, abs=1e-4)
    assert all(0 <= value <= len(answer) * math.log(2) for value in result["divergences"])


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    lacking = Peer("lacking", "no_such_runner")
    python = python_for(lacking, tmp_path, None)
    with pytest.raises(PeerFailed, match=r"no_such_runner.* \(exit status 1; .*\.log\)"):
        run_peer(lacking, python, tmp_path, tmp_path, tmp_path)
