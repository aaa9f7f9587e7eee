"""Where a pass costs the same whatever its tokens, a pass of several rows is as cheap as any."""

import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.architectures import ARCHITECTURES, Architecture
from support.implementations import generation_for, model_of
from support.limits import with_limits
from support.scorers import ANSWER, TREATY, chat
from support.tiny_models import byte_level
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from attribot_rag import Attributor, Budget, Document, ScoringOptions, VerdictOptions
from attribot_rag.methods.limits import Limits
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring.local_backend import LocalBackend, measured_pass_tokens
from attribot_rag.scoring.packed import Packed, attend_at_once
from attribot_rag.scoring.patching import Patch
from attribot_rag.scoring.row import Row, with_response_tokens
from benchmarks.dispatched import Dispatched

DOCUMENTS = [
    Document("The ferry Kittiwake carries 40 passengers. It was built in Harlingen."),
    Document("The lighthouse of Skarn is 31 metres high. Its lamp was lit in 1887."),
    Document("The ferry Kittiwake was painted blue in spring. It carries 40 passengers."),
    Document("The museum opens at ten. The festival of the island is in August."),
]
QUESTION = "How many passengers does the ferry Kittiwake carry?"
ANSWERS = (
    "The ferry Kittiwake carries 40 passengers.",
    "The lighthouse of Skarn is 31 metres high. The festival of the island is in August.",
    "Penguins live in the south.",
)


def operations(backend: LocalBackend, rows: list[Row], *, at_once: bool) -> int:
    """The operations of a pass over these rows."""
    prefix = backend.make(Packed, generation_for(ARCHITECTURES[0]))
    prefix.attends_at_once = at_once
    prefix.read()
    dispatched = Dispatched()
    with torch.inference_mode(), dispatched:
        prefix.log_likelihoods(rows)
    return dispatched.operations


def test_a_pass_of_eight_rows_has_hardly_more_operations_than_one_of_a_row() -> None:
    backend = LocalBackend(model_of(ARCHITECTURES[0]))
    generation = generation_for(ARCHITECTURES[0])
    prompt = generation.prompt_ids
    rows = [
        Row.for_prompt(prompt[:start] + prompt[start + 3 :], start, generation)
        for start in range(5, 45, 5)
    ]
    at_once = operations(backend, rows, at_once=True)
    assert at_once <= 1.05 * operations(backend, rows[:1], at_once=True)
    assert at_once < operations(backend, rows, at_once=False) / 3


def test_a_mask_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = LocalBackend(model_of(ARCHITECTURES[0]))
    prompt = (generation := generation_for(ARCHITECTURES[0])).prompt_ids
    rows = [Row.for_prompt(prompt[:5] + prompt[8:], 5, generation)]
    frugal = operations(backend, rows, at_once=False)
    assert operations(backend, rows, at_once=True) < frugal
    monkeypatch.setattr("attribot_rag.scoring.packed._MOST_AT_ONCE", 1)
    assert operations(backend, rows, at_once=True) == frugal


@pytest.mark.parametrize(("worth", "num_rows"), [(0, 8), (100, 2), (5000, 2)])
def test_a_pass_is_as_large_as_its_layers_attend_to_at_once(
    monkeypatch: pytest.MonkeyPatch, worth: int, num_rows: int
) -> None:
    generation = generation_for(ARCHITECTURES[0])
    prompt = generation.prompt_ids
    most = 4 * 150 * (len(prompt) + 150)
    monkeypatch.setattr("attribot_rag.scoring.packed._MOST_AT_ONCE", most)
    prefix = LocalBackend(model_of(ARCHITECTURES[0])).prefix_for(generation, pass_tokens=worth)
    assert prefix.pass_tokens == min(worth, 150)
    rows = [Row.for_prompt(prompt[:5] + prompt[8:], 5, generation)] * 8
    assert 50 < prefix.num_tokens(rows[0]) <= 75
    assert len(prefix.batching(60_000).next_batch([], iter(rows))) == num_rows


def test_patching_has_the_operations_of_a_few_passes() -> None:
    backend = LocalBackend(model_of(ARCHITECTURES[0]))
    generation = generation_for(ARCHITECTURES[0])
    row = Row.masked(generation, (), range(45, len(generation.prompt_ids)))
    prefix = backend.make(Packed, generation)
    assert isinstance(prefix, Packed)
    prefix.read()
    members = torch.eye(len(generation.prompt_ids))[:, :45]
    with Dispatched() as patching:
        prefix.effects(row, Patch(members, [range(3), range(3, 6)], single_backward_pass=True))
    assert patching.operations <= 4.5 * operations(backend, [row], at_once=True)


SMALL = with_limits(
    Limits(
        min_effect=0.04,
        min_word=0.02,
        min_reliance=0.06,
        min_follows=0.08,
        min_turn=0.04,
        min_sought=0.02,
    )
)


@pytest.mark.parametrize(
    ("answer", "verdicts", "worth", "num_passes", "most_operations"),
    [
        ("The ships came.", VerdictOptions(), 0, 3, 850),
        ("The ships came.", VerdictOptions(), 2000, 2, 350),
        (ANSWER, VerdictOptions(), 0, 4, 1250),
        (ANSWER, VerdictOptions(), 2000, 3, 540),
        (ANSWER, SMALL, 0, 10, 4500),
        (ANSWER, SMALL, 2000, 7, 1800),
    ],
)
def test_an_attribution_has_so_many_passes_and_operations(
    answer: str, verdicts: VerdictOptions, worth: int, num_passes: int, most_operations: int
) -> None:
    """One of the passes reads the prompt; a bound of operations has room for other releases.

    Nothing waits for the device.
    """
    attributor = Attributor(
        byte_level(),
        verdicts=verdicts,
        scoring=ScoringOptions(pass_tokens=worth, token_budget=60_000),
        progress=False,
    )
    attributor.attribute(chat(TREATY), answer, TREATY)  # makes twins, and probes them
    attributor.recorder.clear()
    with Dispatched() as dispatched:
        attribution = attributor.attribute(chat(TREATY), answer, TREATY)
    assert dispatched.passes == num_passes
    assert dispatched.operations <= most_operations
    assert dispatched.synchronisations == 0
    assert attribution.provenance.forward_passes == num_passes - 1


def test_probes_share_passes_and_run_once() -> None:
    backend, generation = LocalBackend(model_of(ARCHITECTURES[0])), generation_for(ARCHITECTURES[0])
    passes = []
    for _ in range(2):
        with Dispatched() as dispatched:
            backend.prefix_for(generation, pass_tokens=0)
        passes.append(dispatched.passes)
    assert passes == [10, 0]


@pytest.mark.parametrize(
    "architecture",
    [architecture for architecture in ARCHITECTURES if architecture.expected == "packed"],
    ids=lambda architecture: architecture.name,
)
def test_nothing_waits_for_the_device_within_a_pass(architecture: Architecture) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    assert backend.prefix_for(generation).name == "packed"
    prompt = generation.prompt_ids
    rows = [
        replace(
            Row.for_prompt(prompt[:9] + prompt[12:], 9, with_response_tokens(generation, kept)),
            kept_response=kept,
        )
        for kept in (None, (1, 2))
    ]
    if backend.why_no_masks(Packed, generation) is None:
        rows.append(Row.masked(generation, range(9, 12), range(48, 60)))
    for at_once in (False, True):
        prefix = backend.make(Packed, generation)
        prefix.attends_at_once = at_once
        prefix.read()
        with torch.inference_mode(), Dispatched() as dispatched:
            prefix.log_likelihoods(rows)
        assert dispatched.synchronisations == 0


def test_layers_do_not_attend_at_once_where_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    generation = generation_for(ARCHITECTURES[0])
    right = LocalBackend(ARCHITECTURES[0].build()).prefix_for(generation, pass_tokens=300)
    assert right.pass_tokens == 300

    def wrong(query: torch.Tensor, *_: object) -> torch.Tensor:
        return attend_at_once(query, *_) * 1.5  # type: ignore[arg-type]

    monkeypatch.setattr("attribot_rag.scoring.packed.attend_at_once", wrong)
    prefix = LocalBackend(ARCHITECTURES[0].build()).prefix_for(generation, pass_tokens=300)
    assert prefix.name == "packed" and prefix.pass_tokens == 0


@pytest.mark.parametrize(
    ("answer", "num_saved"), [*zip(ANSWERS, (1, 1, 0), strict=True)], ids=("one", "two", "none")
)
def test_rows_that_may_be_needed_change_no_verdict_and_save_passes(
    smollm2: LocalModel, answer: str, num_saved: int
) -> None:
    prompt = "\n\n".join([*(document.text for document in DOCUMENTS), QUESTION])
    frugal, wide = (
        Attributor(
            smollm2,
            scoring=ScoringOptions(pass_tokens=tokens, token_budget=10_000),
            progress=False,
        ).attribute([{"role": "user", "content": prompt}], answer, DOCUMENTS)
        for tokens in (0, 2000)
    )
    assert [verdict.kind for verdict in wide.verdicts] == [
        verdict.kind for verdict in frugal.verdicts
    ]
    assert [verdict.source_ids for verdict in wide.verdicts] == [
        verdict.source_ids for verdict in frugal.verdicts
    ]
    assert wide.provenance.forward_passes <= frugal.provenance.forward_passes - num_saved


def test_a_bound_in_tokens_is_not_spent_on_rows_that_may_be_needed(smollm2: LocalModel) -> None:
    prompt = "\n\n".join([*(document.text for document in DOCUMENTS), QUESTION])
    for method in ("leave_one_out", "auto"):
        tokens = [
            Attributor(
                smollm2,
                method=method,
                budget=Budget(tokens=10**8),
                scoring=ScoringOptions(pass_tokens=worth, token_budget=10_000),
                verdicts=VerdictOptions(),
                progress=False,
            )
            .attribute([{"role": "user", "content": prompt}], ANSWERS[0], DOCUMENTS)
            .provenance.scored_tokens
            for worth in (0, 2000)
        ]
        assert tokens[0] == tokens[1]


class Slow(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Sleeps in each pass, and for each token."""

    def __init__(self, of_pass: float, of_token: float) -> None:
        super().__init__(
            LlamaConfig(
                vocab_size=16,
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=1,
                num_attention_heads=1,
            )
        )
        self.seconds = of_pass, of_token

    def forward(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        time.sleep(self.seconds[0] + self.seconds[1] * input_ids.shape[1])
        return super().forward(input_ids, **keywords)


def test_what_a_pass_is_worth_is_measured() -> None:
    dear: PreTrainedModel = Slow(of_pass=1.0, of_token=0.001)
    assert 256 <= measured_pass_tokens(dear) <= 4096
    frugal: PreTrainedModel = Slow(of_pass=0.0, of_token=0.02)
    assert measured_pass_tokens(frugal) == 0
