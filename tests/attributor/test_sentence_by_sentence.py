"""Verdicts are reported as soon as they are settled."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patience import scaled
from support.schemas import SUMMARIES

from attribot_rag import Attribution, Attributor, LanguageModel, VerdictOptions
from attribot_rag.result.summary import summarize
from attribot_rag.runtime import Answer, AttributedRun, AttributionService, RunStore
from attribot_rag.runtime.options import Mode
from attribot_rag.serving.app import create_app
from attribot_rag.serving.body import Limits

pytestmark = pytest.mark.embedded

CORPUS = Path(__file__).parents[2] / "examples" / "corpus"

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
def at_once(smollm2: LanguageModel) -> Attribution:
    attribution = Attributor(smollm2, progress=False).attribute(PROMPT, ANSWER, DOCUMENTS)
    assert [verdict.kind for verdict in attribution.verdicts] == ["grounded"] * NUM_SENTENCES
    return attribution


def check(pending: Sequence[Attribution], whole: Attribution) -> None:
    """Each attribution has one verdict more, as it is in the end; the rest is pending."""
    assert len(pending) == NUM_SENTENCES - 1
    for number, so_far in enumerate(pending, start=1):
        for verdict, final in zip(so_far.verdicts[:number], whole.verdicts[:number], strict=True):
            assert (verdict.kind, verdict.source_ids) == (final.kind, final.source_ids)
            assert verdict.effect == pytest.approx(final.effect, abs=1e-3)
        assert {verdict.reason for verdict in so_far.verdicts[number:]} == {"pending"}
        cited = so_far.to_cited_text()
        assert cited.count("still being checked") == NUM_SENTENCES - number
        assert cited.startswith(whole.to_cited_text().split(". ")[0])
        SUMMARIES.validate(summarize(so_far))
        assert summarize(so_far)["status"] == "pending"


def test_sentences_are_settled_in_their_order(smollm2: LanguageModel, at_once: Attribution) -> None:
    pending: list[Attribution] = []
    attributor = Attributor(smollm2, progress=False)
    whole = attributor.attribute(PROMPT, ANSWER, DOCUMENTS, on_sentence=pending.append)
    check(pending, at_once)
    assert whole.to_cited_text() == at_once.to_cited_text()
    assert pending[0].provenance.scored_tokens < pending[1].provenance.scored_tokens
    assert pending[1].provenance.scored_tokens < whole.provenance.scored_tokens


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_service_tells_of_its_pending_runs(
    smollm2: LanguageModel, at_once: Attribution, mode: Mode
) -> None:
    pending: list[AttributedRun] = []
    kept: list[AttributedRun] = []

    def tell(run: AttributedRun) -> None:
        pending.append(run)
        kept.append(service.store["run"])

    service = AttributionService(smollm2, mode=mode, on_sentence=tell, progress=False)
    service.attribute("run", "root", ELSEWHERE)
    finished = service.store.wait("run")
    assert all(run.is_pending and run.summary["status"] == "pending" for run in pending)
    assert [run.attribution for run in kept] == [run.attribution for run in pending]
    check([run.attribution for run in pending if run.attribution is not None], at_once)
    assert (finished.is_pending, finished.summary["status"]) == (False, "complete")


def test_a_run_is_followed(smollm2: LanguageModel, at_once: Attribution) -> None:
    service = AttributionService(smollm2, mode="background", progress=False)
    service.attribute("run", "root", ELSEWHERE)
    runs = list(service.store.follow("root"))
    assert [run.is_pending for run in runs] == [True] * (NUM_SENTENCES - 1) + [False]
    check([run.attribution for run in runs[:-1] if run.attribution is not None], at_once)
    assert list(service.store.follow("run")) == [runs[-1]]


def test_an_unfinished_attribution_stands_for_no_other_answer(at_once: Attribution) -> None:
    store, answer = RunStore(), Answer(ANSWER, DOCUMENTS)
    pending = AttributedRun("first", "root", answer, at_once, is_pending=True)
    store.add(pending)
    second = AttributedRun("second", "root", answer, is_pending=True)
    assert store.same_answer(second) is None
    store.add(replace(pending, is_pending=False))
    same = store.same_answer(second)
    assert same is not None and same.run_id == "first"


def test_the_limit_of_judging_leaves_out_the_tokens_of_the_search(smollm2: LanguageModel) -> None:
    options = VerdictOptions(min_tokens=1, token_share=1e-6)
    attributor = Attributor(smollm2, verdicts=options, progress=False)
    verdicts = attributor.attribute(PROMPT, ANSWER, DOCUMENTS).verdicts
    assert all(verdict.reason != "limit" and verdict.source_ids for verdict in verdicts)


def test_a_listener_that_fails_changes_nothing(
    smollm2: LanguageModel, at_once: Attribution, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(run: AttributedRun) -> None:
        raise RuntimeError(run.run_id)

    service = AttributionService(smollm2, on_sentence=fail, progress=False)
    run = service.attribute("run", "root", ELSEWHERE)
    assert run.to_cited_text() == at_once.to_cited_text()
    assert caplog.text.count("on_sentence failed for the run run") == NUM_SENTENCES - 1


@pytest.mark.long
def test_a_streamed_answer_of_the_web_service_has_the_sentences_so_far(
    smollm2: LanguageModel,
) -> None:
    question = "List three facts about the ferry: passengers, price, and bicycles."
    files = [(CORPUS / name).read_text("utf-8") for name in ("ferry.txt", "museum.md")]
    body: dict[str, Any] = {"question": question, "documents": files, "stream": True, "data": True}
    body["max_new_tokens"] = 70
    with TestClient(create_app(smollm2, limits=Limits(seconds=scaled(60)))) as client:
        response = client.post("/ask", json=body)
    lines = [json.loads(line) for line in response.text.splitlines()]
    statuses = [line["data"]["summary"]["status"] for line in lines if line.get("data")]
    assert statuses == ["pending"] * (len(statuses) - 1) + ["complete"]
    assert len(statuses) > 1 and [*lines[-1]] == ["answer", "attribution", "html", "data"]
