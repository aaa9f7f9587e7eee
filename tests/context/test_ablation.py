"""An ablation as text to remove and as tokens to hide."""

from support.tiny_models import byte_level, byte_tokenizer

from attribot_rag.context import Ablation, Context, ContextOptions, TokenizedText, locate_context

A, B, C = "The treaty was signed.", "It rained all day.", "Many ships came to the town."
PROMPT = f"Read: {A} {B}\n\n{C} {A}\n\nWho? {C}"


def context_of() -> Context:
    """One token per character, so that positions are characters."""
    language_model = byte_level()
    ids = byte_tokenizer()(PROMPT)["input_ids"]
    assert len(ids) == len(PROMPT)
    spans = tuple((index, index + 1) for index in range(len(PROMPT)))
    prompt = TokenizedText(tuple(ids), PROMPT, spans)
    assert language_model.encode(PROMPT)
    return locate_context(prompt, [f"{A} {B}", f"{C} {A}"], ContextOptions())


def text_at(context: Context, positions: list[int]) -> str:
    return "".join(context.prompt.text[index] for index in positions)


def test_ablations_are_joined() -> None:
    both = Ablation.of(2) | Ablation(frozenset({1}), ((3, 5),))
    assert both == Ablation(frozenset({1, 2}), ((3, 5),))
    assert Ablation.of() == Ablation()


def test_a_source_is_hidden_wherever_it_stands() -> None:
    context = context_of()
    assert [source.text for source in context.sources] == [A, B, C]
    assert text_at(context, context.hidden_tokens(Ablation.of(0))).replace(" ", "") == (
        2 * A
    ).replace(" ", "")
    assert text_at(context, context.hidden_tokens(Ablation.of(2))).split(" Who") == [f"{C} {C}"]
    assert context.hidden_tokens(Ablation()) == []
    assert text_at(context, context.hidden_tokens(Ablation(characters=((0, 4), (2, 5))))) == "Read:"


def test_following_tokens_are_the_rest_of_the_source_s_own_documents() -> None:
    context = context_of()
    assert text_at(context, context.following_tokens(Ablation.of(1))) == ""
    assert text_at(context, context.following_tokens(Ablation.of(0))) == B
    assert text_at(context, context.following_tokens(Ablation.of(2))) == A
    assert text_at(context, context.following_tokens(Ablation.of(0, 2))) == B + A


def test_the_end_of_the_context_is_the_first_token_after_the_documents() -> None:
    context = context_of()
    assert PROMPT[context.query_start :] == f"\n\nWho? {C}"
    assert context.present == (0, 1, 2)
    start, end = context.without_documents.characters[0]
    assert PROMPT[start:end] == f"{A} {B}\n\n{C} {A}"
