"""Several rows in one request, where the server takes lists of prompts."""

from functools import partial

import pytest
from scoring.test_pass_price import ANSWERS, DOCUMENTS, QUESTION
from support.model_server import Kind, ModelServer, model_server
from support.patience import wait_until
from support.scorers import ANSWER, TREATY, chat
from support.threads import at_once
from support.tiny_models import byte_level

from attribot_rag import (
    Attribution,
    Attributor,
    LocalModel,
    ScoringOptions,
    ServedModel,
    ServerOptions,
)
from attribot_rag.errors import ServerFailed

LOCAL = byte_level()
IDS = [list(LOCAL.encode(text)) for text in TREATY]
NUM_SCORED = [5 + index for index in range(len(IDS))]
LISTS = pytest.mark.parametrize("kind", ["vllm", "sglang"])


def connect(server: ModelServer, **options: int) -> ServedModel:
    limits = ServerOptions(**options)  # type: ignore[arg-type]
    return ServedModel.connect(server.url, LOCAL.tokenizer, options=limits)


def attributed(model: ServedModel) -> Attribution:
    attributor = Attributor(model, method="leave_one_out", verdicts=None, progress=False)
    return attributor.attribute(chat(TREATY), ANSWER, TREATY)


@LISTS
def test_rows_of_a_list_are_scored_as_those_of_single_requests(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        together, alone = connect(server, concurrency=16), connect(server, concurrency=1)
        before = len(server.bodies)
        scored = together.weights.score(IDS, NUM_SCORED)
        assert len(server.bodies) == before + 1
        expected = alone.weights.score(IDS, NUM_SCORED)
        assert len(server.bodies) == before + 1 + len(IDS)
    for row, right in zip(scored, expected, strict=True):
        assert row.log_probabilities == pytest.approx(right.log_probabilities, abs=1e-5)


@LISTS
def test_a_list_is_bounded(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        few = connect(server, concurrency=6)
        before = len(server.bodies)
        few.weights.score([IDS[0]] * 7, [5] * 7)
        assert len(server.bodies) == before + 3  # of half of the concurrency, and the last one
        many = connect(server, concurrency=100)
        before = len(server.bodies)
        many.weights.score([(IDS[0] * 1000)[:1000]] * 35, [5] * 35)
        assert len(server.bodies) == before + 2  # of 32,768 tokens


def test_the_sequences_of_lists_count_as_under_way() -> None:
    with model_server(LOCAL) as server:
        model = connect(server, concurrency=5)
        server.most_at_once = 0
        server.open.clear()

        def open_when_no_more_come() -> None:
            wait_until(lambda: server.under_way == 2)
            server.open.set()

        at_once(partial(model.weights.score, IDS * 3, NUM_SCORED * 3), open_when_no_more_come)
        assert server.most_at_once == 2  # lists of two sequences


@LISTS
def test_an_attribution_takes_so_many_requests(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        requests = []
        for takes_lists in (True, False):
            server.takes_lists = takes_lists
            model = connect(server)
            before = len(server.bodies)
            num_rows = len(attributed(model).sources) + 1
            requests.append(len(server.bodies) - before)
    first = kind == "sglang"  # the full prompt goes first, into the cache that rows share
    assert requests == [first + -(-(num_rows - first) // 8), num_rows]


@LISTS
def test_rows_that_may_be_needed_come_with_those_that_are(smollm2: LocalModel, kind: Kind) -> None:
    """Where a round trip is worth tokens; no long row is read in vain."""
    prompt = "\n\n".join([*(document.text for document in DOCUMENTS), QUESTION])
    attributions, requests = [], []
    with model_server(smollm2, kind) as server:
        for worth in (None, 1000):
            attributor = Attributor.for_server(
                server.url,
                tokenizer=smollm2.tokenizer,
                scoring=ScoringOptions(pass_tokens=worth),
                progress=False,
            )
            before = len(server.bodies)
            attributions.append(
                attributor.attribute([{"role": "user", "content": prompt}], ANSWERS[0], DOCUMENTS)
            )
            requests.append(len(server.bodies) - before)
    frugal, wide = ([(x.kind, x.source_ids) for x in a.verdicts] for a in attributions)
    assert wide == frugal
    assert requests == [5, 3]
    few, many = (attribution.provenance.scored_tokens for attribution in attributions)
    assert many < 2 * few


@LISTS
def test_a_server_that_refuses_lists_is_asked_for_single_rows_from_then_on(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        expected = attributed(connect(server))
        model = connect(server)
        server.takes_lists = False
        before = len(server.bodies)
        model.weights.score(IDS, NUM_SCORED)
        assert len(server.bodies) == before + 1 + len(IDS)
        model.weights.score(IDS, NUM_SCORED)
        assert len(server.bodies) == before + 1 + 2 * len(IDS)
        attribution = attributed(model)
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-5)


def test_the_reply_to_another_sequence_of_a_list_is_not_taken() -> None:
    """All sequences end with the same answer: its tokens do not tell them apart."""
    with model_server(LOCAL, "sglang") as server:
        expected = attributed(connect(server))
        server.mixes_lists = True
        attribution = attributed(connect(server))
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-5)


def test_what_a_server_refuses_in_single_requests_too_is_an_error() -> None:
    with model_server(LOCAL) as server:
        model = connect(server)
        server.failures.extend([(400, {})] * (1 + len(IDS)))
        with pytest.raises(ServerFailed, match=f"{server.url} answered 400"):
            model.weights.score(IDS, NUM_SCORED)
        server.failures.clear()
        before = len(server.bodies)
        model.weights.score(IDS, NUM_SCORED)
        assert len(server.bodies) == before + 1  # lists were not what it refused
