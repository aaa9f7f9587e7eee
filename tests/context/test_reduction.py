"""The context of a prompt from which something was taken out, against the prompt itself."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_models import TOKENIZERS

from attribot_rag.context import Ablation, Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.context.context import reduce_context
from attribot_rag.model.local_model import LocalModel

DOCUMENTS = (
    "The treaty was signed in the town hall. The river was closed for two winters. Löwe 🦁 条約。",
    "The first ships came up the river with salt. The town hall burned down in 1683.",
    "The river was closed for two winters. Today the room is a museum.",
)
TURNS = ("What was signed there, and by whom?", "The envoys of the emperor signed it.")


def context_of(language_model: LocalModel) -> Context:
    turns = "\n".join(TURNS)
    text = f"{turns}\nRead this.\n[1] {DOCUMENTS[0]}\n[2] {DOCUMENTS[1]}\n[3] {DOCUMENTS[2]}\nWho?"
    prompt = TokenizedText.of(language_model.encode(text, special=True), language_model)
    return locate_context(prompt, DOCUMENTS, ContextOptions(), earlier_turns=TURNS)


@pytest.mark.parametrize("build", TOKENIZERS, ids=lambda build: build.__name__)
@given(data=st.data())
@settings(max_examples=25)
def test_sources_stand_where_their_text_does(
    build: Callable[[], LocalModel], data: st.DataObject
) -> None:
    language_model = build()
    context = context_of(language_model)
    gone = data.draw(st.sets(st.sampled_from(context.present), min_size=1))
    shorter = reduce_context(context, Ablation.of(*gone), language_model)

    assert shorter.prompt.ids == context.ablate(Ablation.of(*gone), language_model).ids
    assert shorter.prompt.text == language_model.decode(shorter.prompt.ids)
    assert [source.id for source in shorter.sources] == [source.id for source in context.sources]
    assert [source.text for source in shorter.sources] == [
        source.text for source in context.sources
    ]
    assert set(shorter.present) == set(context.present) - gone
    for before, after in zip(context.sources, shorter.sources, strict=True):
        if before.id in gone:
            assert after.occurrences == ()
            continue
        assert [place.spans for place in after.occurrences] == [
            place.spans for place in before.occurrences
        ]
        for old, new in zip(before.occurrences, after.occurrences, strict=True):
            old_text = context.prompt.text[old.start : old.end]
            new_text = shorter.prompt.text[new.start : new.end]
            assert new_text.strip() == old_text.strip()
    for start, end in shorter.conversation:
        assert shorter.prompt.text[start:end].strip() in TURNS
    assert len(shorter.conversation) == 2
    assert all(
        any(start <= place.start and place.end <= end for start, end in shorter.regions)
        for source in shorter.sources
        for place in source.occurrences
    )
