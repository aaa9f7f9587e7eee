"""A served model gives the scores of the same model run here."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.model_server import Kind, ModelServer, model_server
from support.scorers import ANSWER, ATOL, TREATY, chat, many_documents, sibling
from support.tiny_models import byte_level

from attribot_rag import (
    Attribution,
    Attributor,
    Auto,
    Hierarchical,
    Method,
    ScoringOptions,
    ServedModel,
)
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.methods.baselines import ContextCite

LOCAL = byte_level()
MANY = many_documents()


@pytest.fixture(params=["vllm", "sglang"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    with model_server(LOCAL, request.param) as running:
        yield running


def served(server: ModelServer, **options: object) -> Attributor:
    options = {"progress": False, **options}
    return Attributor.for_server(server.url, tokenizer=LOCAL.tokenizer, **options)  # type: ignore[arg-type]


def by_reference(method: str | Method, documents: tuple[str, ...] = TREATY) -> Attribution:
    options = ScoringOptions(implementation="reference")
    attributor = Attributor(LOCAL, method=method, scoring=options, progress=False)
    return attributor.attribute(chat(documents), ANSWER, documents)


def assert_same_scores(found: Attribution, expected: Attribution) -> None:
    assert found.exact == expected.exact
    for left, right in zip(found.token_scores, expected.token_scores, strict=True):
        assert (left is None) == (right is None)
        np.testing.assert_allclose(left or (), right or (), atol=ATOL)
    np.testing.assert_allclose(
        found.token_log_likelihoods, expected.token_log_likelihoods, atol=ATOL
    )


@pytest.mark.parametrize(
    "method",
    ["leave_one_out", Hierarchical(keep=2), ContextCite(num_ablations=12)],
    ids=["leave_one_out", "hierarchical", "context_cite"],
)
def test_scores_are_those_of_the_reference(server: ModelServer, method: str | Method) -> None:
    found = served(server, method=method).attribute(chat(TREATY), ANSWER, TREATY)
    expected = by_reference(method)
    assert_same_scores(found, expected)
    assert [one.kind for one in found.verdicts] == [one.kind for one in expected.verdicts]


def test_auto_takes_groups_first_and_scores_exactly(server: ModelServer) -> None:
    auto = Auto(keep=2)
    found = served(server, method=auto).attribute(chat(MANY), ANSWER, MANY)
    assert found.groups
    scored = [row for row in found.token_scores if row is not None]
    assert 0 < len(scored) < len(found.sources)
    exact = by_reference("leave_one_out", MANY)
    for row, expected in zip(found.token_scores, exact.token_scores, strict=True):
        if row is not None and expected is not None:
            np.testing.assert_allclose(row, expected, atol=ATOL)


def test_a_served_model_is_a_proxy_that_prunes() -> None:
    with model_server(sibling()) as server:
        proxy = ServedModel.connect(server.url, LOCAL.tokenizer)
        pruned = Attributor(LOCAL, method="leave_one_out", proxy=proxy, keep=3, progress=False)
        found = pruned.attribute(chat(TREATY), ANSWER, TREATY)
    local = Attributor(LOCAL, method="leave_one_out", proxy=sibling(), keep=3, progress=False)
    assert_same_scores(found, local.attribute(chat(TREATY), ANSWER, TREATY))
    assert sum(row is not None for row in found.token_scores) == 3


def test_a_local_proxy_finds_the_candidates_of_a_served_model(server: ModelServer) -> None:
    target = ServedModel.connect(server.url, LOCAL.tokenizer)
    found = Attributor(target, proxy=sibling(), progress=False).attribute(chat(MANY), ANSWER, MANY)
    assert found.provenance.proxy_tokens > 0


def test_provenance_says_where_the_scores_come_from(server: ModelServer) -> None:
    found = served(server, method="leave_one_out", verdicts=None)
    before = server.num_encoded
    provenance = found.attribute(chat(TREATY), ANSWER, TREATY).provenance
    assert (provenance.implementation, provenance.device) == ("server", server.url)
    assert (provenance.model, provenance.dtype, provenance.noise) == ("tiny", "unknown", 0.0)
    assert provenance.scored_tokens == server.num_encoded - before


def test_rows_come_in_the_order_in_which_a_prefix_cache_serves() -> None:
    with model_server(LOCAL, "sglang") as server:
        attributor = served(server, method="leave_one_out", verdicts=None)
        num_before = len(server.bodies)
        found = attributor.attribute(chat(TREATY), ANSWER, TREATY)
        rows = [body["input_ids"] for body in server.bodies[num_before:]]
        full = [*LOCAL.encode_prompt(chat(TREATY)), *LOCAL.encode(ANSWER)]
        assert rows[0] == full
        assert all(body["logprob_start_len"] >= 1 for body in server.bodies)
        everything = sum(map(len, rows))
        # all but the first row were encoded from their cuts on
        assert found.provenance.scored_tokens < 0.75 * everything


@pytest.mark.parametrize(
    "method", ["masked", "masked_hierarchical", "patching", "attention_weights", "gradient_norm"]
)
def test_methods_that_need_the_weights_are_refused(method: str) -> None:
    with model_server(LOCAL) as server:
        attributor = served(server, method=method)
        with pytest.raises(UnsupportedModel, match="server"):
            attributor.attribute(chat(TREATY), ANSWER, TREATY)


def test_the_recorder_and_other_implementations_are_refused() -> None:
    with model_server(LOCAL) as server:
        attributor = served(server)
        with pytest.raises(UnsupportedModel, match="needs its weights"):
            attributor.recorder.attach()
        packed = served(server, scoring=ScoringOptions(implementation="packed"))
        with pytest.raises(UnsupportedModel, match="use 'auto' or 'server'"):
            packed.attribute(chat(TREATY), ANSWER, TREATY)
        checked = served(server, scoring=ScoringOptions(self_check=True))
        with pytest.raises(UnsupportedModel, match="needs its weights"):
            checked.attribute(chat(TREATY), ANSWER, TREATY)
    here = Attributor(LOCAL, scoring=ScoringOptions(implementation="server"), progress=False)
    with pytest.raises(InvalidInput, match="unknown implementation 'server'"):
        here.attribute(chat(TREATY), ANSWER, TREATY)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_ask_lets_the_server_answer(kind: Kind) -> None:
    with model_server(LOCAL, kind) as server:
        attributor = served(server)
        found = attributor.ask("who signed it?", TREATY, max_new_tokens=12)
        server.gives_token_ids = False
        again = attributor.ask("who signed it?", TREATY, max_new_tokens=12)
    expected = Attributor(LOCAL, progress=False).ask("who signed it?", TREATY, max_new_tokens=12)
    assert found.response == expected.response
    assert not found.provenance.retokenized
    assert again.provenance.retokenized == (kind == "vllm")
    assert any("cut at 12 tokens" in note for note in found.notes)
