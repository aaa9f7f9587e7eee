"""All methods by name, through the facade: provenance, and what they cost."""

from typing import Any

import numpy as np
import pytest
from support.scorers import ANSWER, ATOL, chat, many_documents, other_chat, scorer
from support.tiny_models import byte_level

from attribot_rag import Attribution, Attributor, LocalModel, VerdictOptions
from attribot_rag.annotation import NumbersInDocuments
from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.context import Document
from attribot_rag.errors import InvalidInput
from attribot_rag.methods import LeaveOneOut, Masked, make_method
from attribot_rag.methods.auto import METHODS
from attribot_rag.methods.base import total
from attribot_rag.scoring import Budget

MANY = many_documents()


def attribute(**options: Any) -> Attribution:
    target = byte_level()
    attributor = Attributor(target, progress=False, **{"verdicts": None, **options})
    return attributor.attribute(chat(MANY), ANSWER, MANY)


def parameters(language_model: LocalModel) -> int:
    return sum(parameter.numel() for parameter in language_model.model.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_a_method_by_name_equals_the_method_itself(name: str) -> None:
    attribution = attribute(method=name)
    method = make_method(name)
    target = scorer(MANY)
    expected = method.run(target)
    assert attribution.provenance.method == method.name
    for row, expected_row in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert (row is None) == (expected_row is None)
        actual, right = (np.array(each or (), dtype=float) for each in (row, expected_row))
        np.testing.assert_allclose(actual, right, atol=ATOL)
    assert attribution.exact == expected.exact
    assert [group.source_ids for group in attribution.groups] == [
        group.units for group in expected.groups
    ]
    assert (attribution.context_reliance is None) == (expected.context_reliance is None)
    assert not attribution.incomplete
    provenance = attribution.provenance
    tokens = provenance.prefilled_tokens + provenance.scored_tokens
    assert tokens == target.session.meter.tokens
    assert provenance.proxy_tokens == 0
    backward = target.usage.backward_tokens
    assert bool(backward) == (name in ("thorough", "patching") or any(attribution.estimated))
    assert provenance.flops == 2 * parameters(byte_level()) * (tokens + 2 * backward)
    assert tokens < provenance.naive_tokens


@pytest.mark.parametrize("keep", [None, 2])
@pytest.mark.parametrize("name", ["auto", "thorough", "leave_one_out", "patching"])
def test_tokens_of_a_proxy_are_counted_apart(name: str, keep: float | None) -> None:
    proxy = other_chat()
    attribution = attribute(method=name, proxy=proxy, keep=keep)
    provenance = attribution.provenance
    tokens = provenance.prefilled_tokens + provenance.scored_tokens
    expected = 2 * (parameters(byte_level()) * tokens + parameters(proxy) * provenance.proxy_tokens)
    goes_back = name == "patching" or (name == "thorough" and keep is None)
    goes_back |= any(attribution.estimated)
    assert provenance.flops > expected if goes_back else provenance.flops == expected
    assert (provenance.proxy_tokens == 0) == (name == "auto" and keep is None)
    if keep is not None:
        kept = sum(row is not None for row in attribution.token_scores)
        assert kept <= 2
        assert not any(attribution.exact)


def test_a_method_object_with_a_proxy_runs_on_it() -> None:
    attribution = attribute(method=LeaveOneOut(), proxy=other_chat())
    assert attribution.provenance.method.startswith("proxy (")
    assert any("the proxy LlamaForCausalLM" in note for note in attribution.notes)


@pytest.mark.parametrize("keep", [None, 3])
@pytest.mark.parametrize("name", ["auto", "hierarchical", "leave_one_out"])
def test_verdicts_rest_on_the_model_that_answered(name: str, keep: int | None) -> None:
    options = {"proxy": other_chat(), "keep": keep}
    attribution = attribute(method=name, verdicts=VerdictOptions(), **options)
    target = scorer(MANY)
    (reliance,) = target.score([target.context.without_documents]).changes
    for verdict in attribution.verdicts:
        own = target.response.tokens_in((verdict.start, verdict.end))
        assert verdict.reliance == pytest.approx(total(reliance, own), abs=ATOL)
    is_own = name == "auto" or keep is not None
    said = "Scores that are not exact are from the proxy"
    assert is_own != any(said in note for note in attribution.notes)


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_that_ran_out_is_noted(name: str) -> None:
    budgets = [Budget(tokens=1)] + [Budget(seconds=1e-6)] * (name == "leave_one_out")
    for budget in budgets:
        attribution = attribute(method=name, budget=budget)
        assert attribution.incomplete
        assert any("budget ran out" in note for note in attribution.notes)
        assert attribution.token_scores == (None,) * 24
    enough = attribute(method=name, budget=Budget(tokens=100_000))
    assert not enough.incomplete


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "auto" else pytest.mark.long) for name in METHODS],
)
def test_the_real_model_names_the_cause_by_every_method(smollm2: LocalModel, name: str) -> None:
    cause = "The Kittiwake ferry carries 84 passengers."
    documents = [
        Document("The island lies in the north of the bay. Its coast is steep and rocky."),
        Document(f"The crew is small. {cause} It sails every day."),
        Document("The school has two rooms. Children walk there along the beach."),
    ]
    prompt = rag_prompt("How many passengers does the ferry carry?", documents, chat=True)
    attributor = Attributor(smollm2, method=name, verdicts=None, progress=False)
    attribution = attributor.attribute(prompt, "It carries 84 passengers.", documents)
    assert attribution.top(1)[0].source.text == cause
    assert attribution.top(1)[0].score > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 2}, r"budget=2; pass Budget\(seconds"),
        ({"verdicts": True}, r"verdicts=True; pass VerdictOptions\(min_effect"),
        ({"annotator": "checks"}, r"annotator='checks'; pass an object .* annotate\(sentences\)"),
        ({"annotator": NumbersInDocuments}, r"pass an object with the method annotate"),
        ({"method": Masked}, "pass a name, or an object"),
        ({"method": "nonsense"}, "'nonsense'"),
        ({"keep": 2}, "keep=2"),
        ({"numbering": "roman"}, r"numbering='roman'; use one of \('by_marker', "),
    ],
)
def test_options_of_a_wrong_kind_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Attributor(byte_level(), **options)
