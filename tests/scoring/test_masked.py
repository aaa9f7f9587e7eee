"""Hiding a part of the prompt: packed = cropped = reference = masks made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from support import scorers
from support.architectures import ARCHITECTURES, VOCABULARY_SIZE, WITH_STATES, Architecture
from support.implementations import NATS, chosen, generation_for, model_of, score
from support.tiny_models import architecture, byte_tokenizer
from transformers import (
    FalconForCausalLM,
    GPT2LMHeadModel,
    GPTNeoForCausalLM,
    MptForCausalLM,
    PreTrainedModel,
)

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import LocalBackend, Recomputed, Scorer
from attribot_rag.scoring.local_prefix import Cropped, LocalPrefix, Reference
from attribot_rag.scoring.packed import Packed, PackedAtOnce
from attribot_rag.scoring.row import Row

TAIL = range(48, 60)
RECURRENT = "it has layers that keep states, in which nothing can be hidden"
LOCAL = "it has layers whose window counts tokens of the input, whatever their positions"
NO_POSITION = "it counts tokens of the input, whatever their positions"
REFUSALS = {
    "mamba": RECURRENT,
    **dict.fromkeys((architecture.name for architecture in WITH_STATES), RECURRENT),
    "bloom": NO_POSITION,
}


OUT_OF_SIGHT = {"mistral_sliding_window", "phimoe", "cohere2", "olmo3", "ministral"}
"""All of whose layers have a window, so that hiding what is far away changes nothing."""


def masked_rows(generation: Generation) -> list[Row]:
    """Stretches hidden at the beginning, in the middle, in the tail and at the very end, with the
    tail recomputed, the response alone, and pieces between."""
    return [
        Row.masked(generation, range(5), TAIL),
        Row.masked(generation, range(10, 22), TAIL),
        Row.masked(generation, range(10, 22), ()),
        Row.masked(generation, range(10, 22), (*range(22, 30), *TAIL)),
        Row.masked(generation, (*range(3, 9), *range(20, 31)), (*range(9, 12), *TAIL)),
        Row.masked(generation, (*range(20, 30), *range(50, 54)), TAIL),
        Row.masked(generation, range(55, 60), range(40, 60)),
        Row.masked(generation, range(59), ()),
        Row.masked(generation, range(60), ()),
    ]


@pytest.mark.parametrize("kind", [Packed, PackedAtOnce, Cropped])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_cached_implementations_equal_the_reference(
    architecture: Architecture, kind: type[LocalPrefix]
) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    if backend.why_not(kind, generation) or backend.why_no_masks(kind, generation):
        assert architecture.expected != kind.name or architecture.name in REFUSALS
        return
    rows = masked_rows(generation)
    truth = score(backend, Reference, generation, rows)
    scored = score(backend, kind, generation, rows)
    assert (truth - scored).abs().max() <= NATS


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_a_refusal_to_mask_has_its_reason(architecture: Architecture) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    for kind in (Packed, Cropped, Reference):
        if architecture.name in REFUSALS:
            assert backend.why_no_masks(kind, generation) == REFUSALS[architecture.name]
        elif backend.why_not(kind, generation) is None:
            assert backend.why_no_masks(kind, generation) is None


@pytest.mark.parametrize(
    "architecture",
    [architecture for architecture in ARCHITECTURES if architecture.name not in REFUSALS],
    ids=lambda architecture: architecture.name,
)
def test_hiding_nothing_is_the_full_prompt_whatever_is_recomputed(
    architecture: Architecture,
) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    prompt = generation.prompt_ids
    full = score(backend, Reference, generation, [Row.for_prompt(prompt, len(prompt), generation)])
    pieces = [(), TAIL, (*range(5, 9), *range(30, 31), *TAIL), range(60)]
    rows = [Row.masked(generation, (), recomputed) for recomputed in pieces]
    kinds = [Reference] if architecture.expected == "reference" else [Reference, Cropped]
    for kind in [*kinds, *([Packed] if architecture.expected == "packed" else [])]:
        scored = score(backend, kind, generation, rows)
        assert (scored - full).abs().max() <= NATS


def with_masks_by_hand(
    model: PreTrainedModel, generation: Generation, hidden: Sequence[int], first_new: int
) -> torch.Tensor:
    """One plain pass of the model, with a mask of four dimensions for each type of layer.

    A layer sees all earlier tokens, those of its sliding window, or those of its chunk, as
    transformers masks them. In all layers, the tokens from `first_new` on do not see the hidden.
    """
    config = model.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    size = getattr(config, "attention_chunk_size", None)
    ids = [*generation.prompt_ids, *generation.response_ids[:-1]]
    place = torch.arange(len(ids))
    distance = place[:, None] - place[None]
    causal = distance >= 0
    causal[first_new:, list(hidden)] = False
    causal.fill_diagonal_(True)
    rules = {"full_attention": causal, "sliding_attention": causal & (distance < (window or 0))}
    if size:
        rules["chunked_attention"] = causal & (place[:, None] // size == place[None] // size)
    least = torch.finfo(torch.float32).min
    masks: Any = {
        kind: torch.zeros(1, 1, len(ids), len(ids)).masked_fill(~visible, least)
        for kind, visible in rules.items()
    }
    if not getattr(config, "layer_types", None):
        masks = masks["sliding_attention" if window else "full_attention"]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), attention_mask=masks, use_cache=False).logits[0]
    return chosen(logits[-len(generation.response_ids) :], generation.response_ids)


WINDOWED = ("mistral_sliding_window", "phimoe", "gemma3", "gemma3n", "gpt_oss", "cohere2", "llama4")
BY_HAND: list[tuple[str, Sequence[int]]] = [
    *product(
        ("llama", "gpt2", "qwen3", "gpt_neox", "mixtral"),
        (range(5), range(10, 22), (*range(2, 9), 30, 31), (20, 21, 50, 51), (57, 58)),
    ),
    *product(WINDOWED, (range(10, 22), (*range(38, 44), 50, 51), (56, 57))),
]


@pytest.mark.parametrize(("name", "hidden"), BY_HAND)
def test_masked_rows_equal_a_pass_with_masks_by_hand(name: str, hidden: Sequence[int]) -> None:
    generation = generation_for(architecture(name))
    row = Row.masked(generation, hidden, TAIL)
    expected = with_masks_by_hand(architecture(name).build(), generation, hidden, TAIL.start)
    backend = LocalBackend(model_of(architecture(name)))
    for kind in (Packed, Cropped, Reference):
        assert torch.allclose(score(backend, kind, generation, [row])[0], expected, atol=1e-4)


def test_the_comparison_is_not_blind() -> None:
    for family in ARCHITECTURES:
        if family.name not in REFUSALS:
            generation = generation_for(family)
            rows = [Row.masked(generation, (), TAIL), *masked_rows(generation)]
            scored = score(LocalBackend(model_of(family)), Reference, generation, rows)
            has_effect = (scored[1:] - scored[0]).abs().amax(dim=1) > 10 * NATS
            is_changed = has_effect.any() if family.name in OUT_OF_SIGHT else has_effect.all()
            assert is_changed, family.name


SMALL: dict[str, Any] = {"vocab_size": VOCABULARY_SIZE, "initializer_range": 0.25}


@pytest.mark.parametrize(
    ("model_class", "settings", "reason"),
    [
        (FalconForCausalLM, {"alibi": True}, "it takes no mask of four dimensions (ValueError)"),
        (MptForCausalLM, {}, NO_POSITION),
        (
            GPTNeoForCausalLM,
            {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
            LOCAL,
        ),
    ],
    ids=["falcon_alibi", "mpt", "gpt_neo"],
)
def test_other_architectures_that_cannot_be_masked(
    model_class: Any, settings: dict[str, Any], reason: str
) -> None:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
    config = model_class.config_class(**SMALL, **{**sizes, **settings})
    backend = LocalBackend(model_class(config).eval())
    generation = Generation(tuple(range(20)), (1, 2))
    assert backend.why_no_masks(Cropped, generation) == reason
    assert backend.why_no_masks(Reference, generation) == reason


DOCUMENT = "The treaty was signed. It rained all day. Ships came. The hall burned down."
RECOMPUTED: tuple[Recomputed, ...] = ("response", "question", "document", "rest")


def scorer_of(model: PreTrainedModel) -> Scorer:
    prompt = f"Read this: {DOCUMENT} Then say: who signed? "
    language_model = LocalModel(model, byte_tokenizer())
    return scorers.scorer([DOCUMENT], "Nobody did.", language_model=language_model, prompt=prompt)


@pytest.fixture(scope="module")
def without_positions() -> Scorer:
    """A model to which a text is the same wherever it stands."""
    model = architecture("gpt2").build()
    assert isinstance(model, GPT2LMHeadModel)
    model.transformer.wpe.weight.data.zero_()
    return scorer_of(model)


def test_without_position_information_masking_to_the_end_of_the_document_is_exact(
    without_positions: Scorer,
) -> None:
    """Everything that could have read the source is encoded again without it."""
    inner = [Ablation.of(0), Ablation.of(1), Ablation.of(0, 2)]
    exact = without_positions.score(inner)
    assert exact.exact == (True,) * 3
    masked = without_positions.score(inner, recompute="document")
    assert np.allclose(masked.full, exact.full, atol=1e-4)
    assert np.allclose(masked.ablated, exact.ablated, atol=1e-4)
    assert masked.exact == (False,) * 3


def test_recomputing_less_gives_other_scores(without_positions: Scorer) -> None:
    inner = [Ablation.of(0), Ablation.of(1)]
    by_dial = {dial: without_positions.score(inner, recompute=dial).ablated for dial in RECOMPUTED}
    exact = without_positions.score(inner).ablated
    for other in (exact, by_dial["response"]):
        assert np.abs(by_dial["question"] - other).max() > 10 * NATS
    assert np.abs(by_dial["response"] - exact).max() > 100 * NATS
    dials = "'all'; choose one of response, question, document, rest"
    with pytest.raises(InvalidInput, match=dials):
        without_positions.score(inner, recompute="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REFUSALS)
def test_a_scorer_refuses_to_mask_and_says_what_to_use(name: str) -> None:
    scorer = scorer_of(architecture(name).build())
    assert scorer.why_no_masks == REFUSALS[name]
    with pytest.raises(UnsupportedModel, match=r"not available for this model: .*leave-one-out"):
        scorer.score([Ablation.of(0)], recompute="question")
    assert scorer.score([Ablation.of(0)]).is_scored == (True,)


def test_masking_feeds_what_is_recomputed_and_no_more(without_positions: Scorer) -> None:
    scorer = replace(without_positions)  # that has scored nothing yet
    num_question = len(scorer.generation.prompt_ids) - scorer.context.query_start
    num_rest = len("It rained all day. Ships came. The hall burned down.")
    num_fed = {"response": 1, "question": num_question}
    num_fed |= dict.fromkeys(("document", "rest"), num_question + num_rest)
    scorer.score([])  # the full prompt, which is scored once
    for recompute in RECOMPUTED:
        before = scorer.usage.scored_tokens
        scorer.score([Ablation.of(0)], recompute=recompute)
        spent = scorer.usage.scored_tokens - before
        assert spent == num_fed[recompute] + len(scorer.generation.response_ids) - 1
