"""Prompts without some of their text, by any tokenizer."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.text_strategies import removals, texts, without
from support.tiny_models import CORPUS, TOKENIZERS, byte_level, metaspace

from attribot_rag.context import TokenizedText
from attribot_rag.context.prompt import ablate
from attribot_rag.model.local_model import LocalModel

with_every_tokenizer = pytest.mark.parametrize("build", TOKENIZERS)
LONG = CORPUS.split("Die Stadt")[0]


def common_prefix(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


def is_subsequence(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    rest = iter(whole)
    return all(token_id in rest for token_id in part)


def num_boundaries(ids: tuple[int, ...], language_model: LocalModel) -> int:
    return sum(token_id in language_model.boundary_ids for token_id in ids)


def tokenized(text: str, language_model: LocalModel, *, special: bool = False) -> TokenizedText:
    return TokenizedText.of(language_model.encode(text, special=special), language_model)


def interval(text: str, part: str) -> tuple[int, int]:
    start = text.index(part)
    return start, start + len(part)


@with_every_tokenizer
@given(data=st.data(), special=st.booleans())
def test_an_ablated_prompt_is_the_text_without_the_removed_characters(
    build: Callable[[], LocalModel], data: st.DataObject, special: bool
) -> None:
    language_model = build()
    prompt = tokenized(data.draw(texts(markers=True)), language_model, special=special)
    removed = data.draw(removals(prompt.text))
    ablated = ablate(prompt, removed, language_model)
    if ablated.in_step:
        assert language_model.decode(ablated.ids) == without(prompt.text, removed)
    else:
        assert is_subsequence(ablated.ids, prompt.ids)
    assert ablated.num_shared == common_prefix(ablated.ids, prompt.ids)


@given(data=st.data(), special=st.booleans())
def test_byte_level_ids_are_those_of_the_ablated_text(data: st.DataObject, special: bool) -> None:
    language_model = byte_level()
    prompt = tokenized(data.draw(texts(markers=True)), language_model, special=special)
    removed = data.draw(removals(prompt.text))
    ablated = ablate(prompt, removed, language_model)
    afresh = language_model.encode(without(prompt.text, removed), special=special)
    # A marker that only the removal put together is no special token: nobody wrote it.
    assume(num_boundaries(afresh, language_model) <= num_boundaries(ablated.ids, language_model))
    assert ablated.in_step
    assert ablated.ids == afresh


@with_every_tokenizer
@pytest.mark.parametrize("part", ["👩", "\u200d", "約は", "🙂" * 30, "\u0301"])
def test_cuts_between_the_tokens_of_characters(build: Callable[[], LocalModel], part: str) -> None:
    language_model = build()
    text = "x👩\u200d👩\u200d👧条約は町で" + "𝛝" * 50 + "🙂" * 40 + "🦜" * 50 + "e\u0301y"
    prompt = tokenized(text, language_model)
    ablated = ablate(prompt, [interval(text, part)], language_model)
    assert ablated.in_step
    assert ablated.ids == language_model.encode(text.replace(part, "", 1))


@with_every_tokenizer
def test_a_chat_is_cut_between_its_special_tokens(build: Callable[[], LocalModel]) -> None:
    language_model = build()
    end = str(language_model.tokenizer.eos_token)
    first, second = "The ships came up.", "The river was open. The seals are lost."
    turns = [language_model.encode(turn) for turn in (first, second)]
    (end_id,) = language_model.encode(end, special=True)
    prompt = TokenizedText.of([*turns[0], end_id, *turns[1], end_id], language_model)
    removed = [
        interval(prompt.text, "The ships came up."),
        interval(prompt.text, "The seals are lost."),
    ]
    ablated = ablate(prompt, removed, language_model)
    assert ablated.in_step
    assert ablated.ids == (end_id, *language_model.encode("The river was open. "), end_id)


@with_every_tokenizer
@pytest.mark.parametrize("as_special", [True, False])
def test_markers_in_a_document_stay_text_or_special_tokens(
    build: Callable[[], LocalModel], as_special: bool
) -> None:
    language_model = build()
    marker = str(language_model.tokenizer.eos_token)
    text = f"The treaty was signed.{marker}The ships came up the river."
    prompt = tokenized(text, language_model, special=as_special)
    ablated = ablate(prompt, [interval(prompt.text, "The treaty ")], language_model)
    assert ablated.in_step
    assert num_boundaries(ablated.ids, language_model) == int(as_special)
    assert marker in language_model.decode(ablated.ids)
    through = interval(prompt.text, f"signed.{marker}")
    assert marker not in language_model.decode(ablate(prompt, [through], language_model).ids)


def test_text_that_no_ids_stand_for_is_reported() -> None:
    """This tokenizer cannot begin a text after a special token without a space."""
    language_model = metaspace()
    text = "It burned down. Today it is a museum."
    prompt = TokenizedText.of(language_model.encode_prompt(text), language_model)
    assert prompt.text == f"<s> {text}"
    ablated = ablate(prompt, [interval(prompt.text, " It ")], language_model)
    assert not ablated.in_step
    assert ablated.ids == (prompt.ids[0], *language_model.encode(text.removeprefix("It ")))
    ablated = ablate(prompt, [interval(prompt.text, "It burned down. ")], language_model)
    assert ablated.in_step
    assert ablated.ids == language_model.encode_prompt("Today it is a museum.")


def letter_by_letter(text: str, language_model: LocalModel) -> tuple[int, ...]:
    return tuple(token for letter in text for token in language_model.encode(letter))


def test_ids_that_encoding_does_not_give_are_dropped_as_they_were_seen() -> None:
    language_model = byte_level()
    prompt = TokenizedText.of(letter_by_letter(LONG, language_model), language_model)
    removed = [interval(LONG, "The harbour of the town had been closed")]
    ablated = ablate(prompt, removed, language_model)
    assert not ablated.in_step
    assert ablated.ids == letter_by_letter(without(LONG, removed), language_model)
