"""Scorers of small prompts on tiny backend, and their scores by hand."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from attribot_rag.context import (
    Ablation,
    ContextOptions,
    Document,
    PromptInput,
    TokenizedText,
    locate_context,
)
from attribot_rag.methods import Method, Scores
from attribot_rag.model.chat_messages import Message
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import Prompt
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import (
    Budget,
    LocalBackend,
    Meter,
    Progress,
    Scorer,
    ScoringOptions,
    Session,
)
from support import tiny_models
from support.tiny_models import byt5, byte_level

ATOL = 1e-3
TREATY = (
    "The treaty was signed in the town hall. The river was closed for two winters. "
    "The merchants asked for one thing only.",
    "The first ships came up the river with salt. The town hall burned down in 1683. "
    "Many letters are lost.",
    "Today the room is a museum. Visitors can see the seals. The copy of the treaty is there.",
    "The queen asked for the river. The free cities had been closed.",
)
ANSWER = "The ships came with salt. Many letters are lost."
PLACES = ("harbour", "river", "tower", "hall", "table", "museum", "city", "treaty")
OTHER_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n"
    "{% endfor %}[answer] "
)
CUTTING_TEMPLATE = "{% for message in messages %}{{ message['content'][:150] }}{% endfor %}\n"


def many_documents(count: int = 8) -> tuple[str, ...]:
    """Documents of three short sentences, all different."""
    return tuple(
        f"The {place} was built in {1600 + 7 * index}. Many ships came to the {place}. "
        f"The queen closed {index} of them."
        for index, place in enumerate(PLACES[:count])
    )


def chat(documents: Sequence[str | Document], question: str = "who signed it?") -> list[Message]:
    texts = [Document.of(document).text for document in documents]
    return [
        {"role": "system", "content": "Answer from the context."},
        {"role": "user", "content": "\n\n".join(texts) + f"\n\nQuestion: {question}"},
    ]


RECORD: dict[str, Any] = {
    "messages": chat(TREATY[:2]),
    "documents": [{"text": text, "id": f"d{index}"} for index, text in enumerate(TREATY[:2])],
    "response": ANSWER,
}
"""A logged answer, as a batch reads it."""


@cache
def backend_of(language_model: LocalModel) -> LocalBackend:
    return LocalBackend(language_model.model)


@cache
def other_chat() -> LocalModel:
    """A slow tokenizer of bytes with a chat template unlike that of `byte_level`."""
    return _with_template(byt5(), OTHER_TEMPLATE)


@cache
def cutting_chat() -> LocalModel:
    """A template that loses the end of a message."""
    return _with_template(byt5(), CUTTING_TEMPLATE)


@cache
def sibling() -> LocalModel:
    """Another model with the tokenizer and the template of `byte_level`."""
    source = byte_level()
    model = copy.deepcopy(source.model)
    for parameter in model.parameters():
        parameter.data = parameter.data.flip(0)
    return LocalModel(model, source.tokenizer)


@cache
def built(name: str) -> LocalModel:
    """A tiny model of an architecture, with room for the prompts here."""
    language_model = tiny_models.build(name)
    language_model.model.config.max_position_embeddings = 4096
    return language_model


def _with_template(language_model: LocalModel, template: str) -> LocalModel:
    tokenizer = copy.deepcopy(language_model.tokenizer)
    tokenizer.chat_template = template
    return LocalModel(language_model.model, tokenizer)


def scorer(
    documents: Sequence[str | Document] = TREATY,
    response: str = ANSWER,
    *,
    language_model: LocalModel | None = None,
    prompt: Prompt | None = None,
    budget: Budget | int | None = None,
    progress: Progress | None = None,
    context: ContextOptions | None = None,
    **options: Any,
) -> Scorer:
    """A scorer as the facade makes it; a `budget` that is a number is in tokens."""
    language_model = language_model or byte_level()
    budget = Budget(tokens=budget) if isinstance(budget, int) else budget
    if prompt is None:
        prompt = chat(documents) if language_model.tokenizer.chat_template else plain(documents)
    prompt_ids = language_model.encode_prompt(prompt)
    tokens = TokenizedText.of(prompt_ids, language_model)
    context = context or ContextOptions()
    located = locate_context(tokens, documents, context)
    return Scorer(
        language_model=language_model,
        generation=Generation(prompt_ids, language_model.encode(response), retokenized=True),
        context=located,
        backend=backend_of(language_model),
        options=ScoringOptions(**options),
        session=Session(Meter(budget), progress or Progress()),
        prompt_input=PromptInput(prompt, located, context),
    )


def plain(documents: Sequence[str | Document]) -> str:
    """A prompt as rendered text, for a tokenizer without a chat template."""
    texts = [Document.of(document).text for document in documents]
    return "\n\n".join(texts) + "\n\nQuestion: who signed it? "


def by_hand(target: Scorer, units: Sequence[Sequence[int]]) -> list[np.ndarray[Any, Any]]:
    """The scores of sources taken out together, each asked for in a call of its own."""
    rows = [target.score([Ablation.of(*unit)]) for unit in units]
    return [row.full - row.ablated[0] for row in rows]


def best_by_hand(rows: Sequence[np.ndarray[Any, Any]], count: int) -> list[int]:
    return sorted(range(len(rows)), key=lambda index: -float(rows[index].sum()))[:count]


def ids_of(target: Scorer, document: int) -> list[int]:
    """The sources of a document that hold no earlier one."""
    return [source.id for source in target.context.sources if source.documents[0] == document]


def assert_same_rows(scores: Scores, expected: Scores) -> None:
    """The same units have scores, and these agree."""
    assert len(scores.token_scores) == len(expected.token_scores)
    assert (scores.token_log_likelihoods is None) == (expected.token_log_likelihoods is None)
    np.testing.assert_allclose(
        scores.token_log_likelihoods or (), expected.token_log_likelihoods or (), atol=ATOL
    )
    for row, expected_row in zip(scores.token_scores, expected.token_scores, strict=True):
        assert (row is None) == (expected_row is None)
        if row is not None and expected_row is not None:
            np.testing.assert_allclose(row, expected_row, atol=ATOL)


def assert_scored_by_hand(
    scores: Scores, kept: Sequence[int], expected: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Exactly the kept units have scores, and these are the expected ones."""
    assert [i for i, row in enumerate(scores.token_scores) if row is not None] == sorted(kept)
    for index, row in zip(kept, expected, strict=True):
        np.testing.assert_allclose(scores.token_scores[index] or (), row, atol=ATOL)


def run(method: Method, **options: Any) -> Scores:
    return method.run(scorer(**options))
