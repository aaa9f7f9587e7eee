"""A wall clock that jumps, as when a laptop wakes or a server is set right, changes nothing."""

import itertools
import time

import pytest
from support.scorers import ANSWER, TREATY, chat
from support.tiny_models import byte_level

from attribot_rag import Attributor, Budget


def test_a_budget_goes_by_a_clock_that_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    attributor = Attributor(byte_level(), budget=Budget(seconds=3_000), progress=False)
    expected = attributor.attribute(chat(TREATY), ANSWER, TREATY)
    now, year = time.time(), 365 * 86_400
    jumps = itertools.cycle([now + year, now - year, 0.0])
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: next(jumps))
        patch.setattr(time, "time_ns", lambda: int(next(jumps) * 1e9))
        attribution = attributor.attribute(chat(TREATY), ANSWER, TREATY)
    assert attribution.token_scores == expected.token_scores
    assert attribution.verdicts == expected.verdicts
    assert not attribution.incomplete
    assert 0 < attribution.provenance.seconds < 3_000
