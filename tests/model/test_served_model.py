"""A served model gives the scores of the same model run here."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from methods.test_auto import EAGER
from support.model_server import Kind, ModelServer, model_server
from support.scorers import ANSWER, ATOL, TREATY, chat, many_documents, scorer, sibling
from support.tiny_models import byte_level

from attribot_rag import (
    Attribution,
    Attributor,
    Auto,
    Hierarchical,
    Method,
    ScoringOptions,
    ServedModel,
    ServerOptions,
)
from attribot_rag.context import Ablation
from attribot_rag.errors import (
    InvalidInput,
    ServerFailed,
    UnsupportedModel,
)
from attribot_rag.scoring import Meter, Session, scoring_backend
from benchmarks.experiment.baselines import AttentionWeights, ContextCite, GradientNorm

LOCAL = byte_level()
MANY = many_documents()


@pytest.fixture(params=["vllm", "sglang"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    with model_server(LOCAL, request.param) as running:
        yield running


def served(server: ModelServer, /, **options: object) -> Attributor:
    options = {"progress": False, **options}
    return Attributor.for_server(server.url, tokenizer=LOCAL.tokenizer, **options)  # type: ignore[arg-type]


def attributed(attributor: Attributor, documents: tuple[str, ...] = TREATY) -> Attribution:
    return attributor.attribute(chat(documents), ANSWER, documents)


def model_of(attributor: Attributor) -> ServedModel:
    assert isinstance(attributor.language_model, ServedModel)
    return attributor.language_model


def by_reference(
    method: str | Method, documents: tuple[str, ...] = TREATY, **options: Any
) -> Attribution:
    scoring = ScoringOptions(implementation="reference")
    attributor = Attributor(LOCAL, method=method, scoring=scoring, progress=False, **options)
    return attributed(attributor, documents)


def assert_same_scores(attribution: Attribution, expected: Attribution) -> None:
    assert attribution.exact == expected.exact
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert (row is None) == (right is None)
        actual, truth = (np.array(each or (), dtype=float) for each in (row, right))
        np.testing.assert_allclose(actual, truth, atol=ATOL)
    np.testing.assert_allclose(
        attribution.token_log_likelihoods, expected.token_log_likelihoods, atol=ATOL
    )


METHODS = pytest.mark.parametrize(
    "method",
    ["leave_one_out", Hierarchical(keep=2), ContextCite(num_ablations=12)],
    ids=["leave_one_out", "hierarchical", "context_cite"],
)


@METHODS
def test_scores_are_those_of_the_reference(server: ModelServer, method: str | Method) -> None:
    attribution = attributed(served(server, method=method, verdicts=None))
    assert_same_scores(attribution, by_reference(method, verdicts=None))


@METHODS
def test_verdicts_are_those_of_the_reference(server: ModelServer, method: str | Method) -> None:
    """Though a server masks no source, so that each score of judging is exact."""
    verdicts = attributed(served(server, method=method)).verdicts
    expected = by_reference(method).verdicts
    assert [verdict.kind for verdict in verdicts] == [verdict.kind for verdict in expected]


def test_rows_that_say_a_part_of_the_response(server: ModelServer) -> None:
    here = scorer()
    model = model_of(served(server))
    there = replace(
        here, language_model=model, backend=scoring_backend(model), session=Session(Meter())
    )
    bare = here.context.without_documents
    ablations = [
        replace(bare, kept_response=(0, 1, 2)),
        Ablation.of(1),
        replace(bare, kept_response=(5, 9, 10)),
    ]
    scored, expected = (target.score(ablations).ablated for target in (there, here))
    np.testing.assert_allclose(scored, expected, atol=ATOL)
    assert np.isnan(scored[0, 3:]).all() and np.isfinite(scored[1]).all()


def test_the_rows_that_auto_scores_are_exact(server: ModelServer) -> None:
    attributor = served(server, method=Auto(EAGER), verdicts=None)
    attribution = attributed(attributor, MANY)
    assert not any(attribution.estimated)
    scored = [row for row in attribution.token_scores if row is not None]
    assert 0 < len(scored) < len(attribution.sources)
    exact = by_reference("leave_one_out", MANY)
    for row, expected in zip(attribution.token_scores, exact.token_scores, strict=True):
        if row is not None and expected is not None:
            np.testing.assert_allclose(
                np.array(row, dtype=float), np.array(expected, dtype=float), atol=ATOL
            )


def test_a_served_model_is_a_proxy_that_prunes() -> None:
    with model_server(sibling()) as server:
        proxy = ServedModel.connect(server.url, LOCAL.tokenizer)
        pruned = Attributor(LOCAL, method="leave_one_out", proxy=proxy, keep=3, progress=False)
        attribution = attributed(pruned)
    local = Attributor(LOCAL, method="leave_one_out", proxy=sibling(), keep=3, progress=False)
    assert_same_scores(attribution, attributed(local))
    assert sum(row is not None for row in attribution.token_scores) == 3


def test_a_local_proxy_finds_the_candidates_of_a_served_model(server: ModelServer) -> None:
    target = ServedModel.connect(server.url, LOCAL.tokenizer)
    method = Auto(EAGER, proxy=sibling())
    attribution = attributed(Attributor(target, method=method, progress=False), MANY)
    assert attribution.provenance.proxy_tokens > 0
    assert any(attribution.estimated)


def test_provenance_says_where_the_scores_come_from(server: ModelServer) -> None:
    attribution = served(server, method="leave_one_out", verdicts=None)
    before = server.num_encoded
    provenance = attributed(attribution).provenance
    assert (provenance.implementation, provenance.device) == ("server", server.url)
    assert (provenance.model, provenance.dtype, provenance.noise) == ("tiny", "unknown", 0.0)
    assert provenance.scored_tokens == server.num_encoded - before


def test_rows_come_in_the_order_in_which_a_prefix_cache_serves() -> None:
    with model_server(LOCAL, "sglang") as server:
        one_at_a_time = ServerOptions(concurrency=1)
        attributor = served(server, method="leave_one_out", verdicts=None, server=one_at_a_time)
        num_before, encoded_before = len(server.bodies), server.num_encoded
        attributed(attributor)
        rows = [body["input_ids"] for body in server.bodies[num_before:]]
        encoded = server.num_encoded - encoded_before
    full = [*LOCAL.encode_prompt(chat(TREATY)), *LOCAL.encode(ANSWER)]
    assert rows[0] == full
    shared = [num_shared(row, full) for row in rows]
    assert shared == sorted(shared, reverse=True)
    assert len(set(shared)) > 2
    # all but the first row were encoded from their cuts on
    assert encoded < 0.75 * sum(map(len, rows))


def num_shared(row: list[int], other: list[int]) -> int:
    """The number of first tokens that are the same."""
    pairs = zip(row, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


@pytest.mark.parametrize(
    "method",
    ["masked", "masked_hierarchical", "patching", AttentionWeights(), GradientNorm()],
    ids=str,
)
def test_methods_that_need_the_weights_are_refused(method: str | Method) -> None:
    with model_server(LOCAL) as server, pytest.raises(UnsupportedModel, match="server"):
        attributed(served(server, method=method))


def test_the_recorder_and_other_implementations_are_refused() -> None:
    with model_server(LOCAL) as server:
        attributor = served(server)
        with pytest.raises(UnsupportedModel, match="needs its weights"):
            attributor.recorder.attach()
        packed = served(server, scoring=ScoringOptions(implementation="packed"))
        with pytest.raises(UnsupportedModel, match="use 'auto' or 'server'"):
            attributed(packed)
        checked = served(server, scoring=ScoringOptions(self_check=True))
        with pytest.raises(UnsupportedModel, match="needs its weights"):
            attributed(checked)
    here = Attributor(LOCAL, scoring=ScoringOptions(implementation="server"), progress=False)
    with pytest.raises(InvalidInput, match="unknown implementation 'server'"):
        attributed(here)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_ask_lets_the_server_answer(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        attributor = served(server)
        attribution = attributor.ask("who signed it?", TREATY, max_new_tokens=12)
        server.gives_token_ids = False
        again = attributor.ask("who signed it?", TREATY, max_new_tokens=12)
    expected = Attributor(LOCAL, progress=False).ask("who signed it?", TREATY, max_new_tokens=12)
    assert attribution.response == expected.response
    assert not attribution.provenance.retokenized
    assert again.provenance.retokenized == (kind == "vllm")
    assert any("limit of 12 tokens" in note for note in attribution.notes)


def test_an_answer_is_waited_for_no_longer_than_asked() -> None:
    with model_server(LOCAL) as server:
        attributor = served(server)
        server.open.clear()
        with pytest.raises(ServerFailed, match="not answered in time"):
            attributor.ask("who signed it?", TREATY, max_time=0.2)
