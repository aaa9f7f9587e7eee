"""Verdicts are reported as soon as they are settled."""

from collections.abc import Sequence

import pytest
from support.schemas import SUMMARIES

from attribot_rag import Attribution, Attributor, LocalModel
from attribot_rag.result.summary import summarize
from attribot_rag.runtime import Answer, AttributedRun, AttributionService

pytestmark = pytest.mark.embedded

DOCUMENTS = [
    "The ferry Kittiwake carries 84 passengers. It was built in Bergen.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
    "The museum opens at ten o'clock. A ticket costs four crowns.",
]
PROMPT = [
    {"role": "user", "content": "\n\n".join([*DOCUMENTS, "Tell me about the island's sights."])}
]
ANSWER = (
    "The ferry Kittiwake carries 84 passengers. The lighthouse is 38 metres high. "
    "A ticket for the museum costs four crowns."
)
NUM_SENTENCES = 3
ELSEWHERE = Answer(ANSWER, DOCUMENTS, prompt=PROMPT, elsewhere=True)


@pytest.fixture(scope="module")
def at_once(smollm2: LocalModel) -> Attribution:
    attribution = Attributor(smollm2, progress=False).attribute(PROMPT, ANSWER, DOCUMENTS)
    assert [verdict.kind for verdict in attribution.verdicts] == ["grounded"] * NUM_SENTENCES
    return attribution


def check(pending: Sequence[Attribution], whole: Attribution) -> None:
    """Each attribution has one verdict more, as it is in the end; the rest is pending."""
    assert len(pending) == NUM_SENTENCES
    for number, so_far in enumerate(pending, start=1):
        for verdict, final in zip(so_far.verdicts[:number], whole.verdicts[:number], strict=True):
            assert (verdict.kind, verdict.source_ids) == (final.kind, final.source_ids)
            assert verdict.effect == pytest.approx(final.effect, abs=1e-3)
        assert all(verdict.reason == "pending" for verdict in so_far.verdicts[number:])
        cited = so_far.to_cited_text()
        assert cited.count("still being checked") == NUM_SENTENCES - number
        assert cited.startswith(whole.to_cited_text().split(". ")[0])
        SUMMARIES.validate(summarize(so_far))
        is_last = number == NUM_SENTENCES
        assert summarize(so_far)["status"] == ("complete" if is_last else "pending")


def test_sentences_are_settled_in_their_order(smollm2: LocalModel, at_once: Attribution) -> None:
    pending: list[Attribution] = []
    attributor = Attributor(smollm2, progress=False)
    whole = attributor.attribute(PROMPT, ANSWER, DOCUMENTS, on_sentence=pending.append)
    check(pending, at_once)
    assert whole.to_cited_text() == at_once.to_cited_text()
    assert pending[0].provenance.scored_tokens < pending[1].provenance.scored_tokens
    assert pending[1].provenance.scored_tokens < whole.provenance.scored_tokens
    assert pending[-1] == whole


def test_a_service_tells_of_its_pending_runs_and_a_run_is_followed(
    smollm2: LocalModel, at_once: Attribution
) -> None:
    pending: list[AttributedRun] = []
    kept: list[AttributedRun] = []

    def tell(run: AttributedRun) -> None:
        pending.append(run)
        kept.append(service.store["run"])

    service = AttributionService(smollm2, mode="background", on_sentence=tell, progress=False)
    service.attribute("run", "root", ELSEWHERE)
    runs = list(service.store.follow("root"))
    assert [run.is_pending for run in runs][-2:] == [True, False]
    assert all(run.is_pending and run.summary["status"] == "pending" for run in pending)
    assert [run.attribution for run in kept] == [run.attribution for run in pending]
    check([run.attribution for run in pending if run.attribution is not None], at_once)
    assert (runs[-1].is_pending, runs[-1].summary["status"]) == (False, "complete")
    assert list(service.store.follow("run")) == [runs[-1]]
