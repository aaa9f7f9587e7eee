"""Any input gives the right numbers, or an error that names the value and the fix."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.implementations import plain_scores
from support.scripted_generation import ANSWER, DOCUMENTS, messages, rendered
from support.tiny_models import (
    build,
    byt5,
    byte_level,
    metaspace,
)
from transformers import PreTrainedModel

from attribot_rag import Attributor, Document, LocalModel, ScoringOptions
from attribot_rag.errors import (
    ContextTooLong,
    DocumentsNotLocated,
    InvalidInput,
    ScoringFailed,
    TokenizerMismatch,
)

MODEL = byte_level()
PROMPT = rendered(MODEL)
PROMPT_IDS = MODEL.encode_prompt(PROMPT)
EOS = int(MODEL.tokenizer.eos_token_id)
PENGUINS = "Penguins cannot fly at all, they swim."


def attributor_of(model: LocalModel, **options: Any) -> Attributor:
    return Attributor(model.model, model.tokenizer, progress=False, **options)


def head_weights(model: PreTrainedModel) -> torch.Tensor:
    return model.get_parameter("lm_head.weight").data


@pytest.fixture
def attributor() -> Attributor:
    return attributor_of(MODEL, method="leave_one_out")


ARGUMENTS = {"prompt": PROMPT, "response": ANSWER, "documents": DOCUMENTS}
NO_DOCUMENTS = r"documents=.*pass a list of at least one"


@pytest.mark.parametrize(
    ("name", "values", "error", "message"),
    [
        ("prompt", ["", " \n\t", [], ()], InvalidInput, "prompt is empty.*pass what the model was"),
        ("prompt", [[*PROMPT_IDS, 99999]], TokenizerMismatch, "token id 99999 is outside"),
        ("response", [[5, -1]], TokenizerMismatch, "token id -1 is outside"),
        ("documents", [[], (), "one text", ""], InvalidInput, NO_DOCUMENTS),
        ("documents", [[3], [None], [{"content": "a"}]], InvalidInput, "a document"),
        ("documents", [[{"text": None}], [["a"]]], InvalidInput, "a document"),
        ("documents", [[PENGUINS]], DocumentsNotLocated, "none of the documents .* 'Penguins"),
    ],
)
def test_invalid_arguments_are_refused(
    attributor: Attributor, name: str, values: list[Any], error: type[Exception], message: str
) -> None:
    for value in values:
        arguments: dict[str, Any] = {**ARGUMENTS, name: value}
        with pytest.raises(error, match=message):
            attributor.attribute(**arguments)


@pytest.mark.parametrize("response", ["", " <|im_end|><|endoftext|>"])
def test_no_response(attributor: Attributor, response: str) -> None:
    for shown in (response, PROMPT + response):
        with pytest.raises(InvalidInput, match=r"the response .* is empty"):
            attributor.attribute(PROMPT, shown, DOCUMENTS)


@pytest.mark.parametrize("document", ["", "  \n"])
def test_blank_documents(attributor: Attributor, document: str) -> None:
    with pytest.raises(DocumentsNotLocated):
        attributor.attribute(PROMPT, ANSWER, [document])
    result = attributor.attribute(PROMPT, ANSWER, [*DOCUMENTS, document])
    assert result.not_located == (len(DOCUMENTS),)
    assert not any("did not receive" in note for note in result.notes)


def test_the_model_answers_with_nothing() -> None:
    silent = build("llama")
    head_weights(silent.model).zero_()
    attributor = attributor_of(silent)
    with pytest.raises(InvalidInput, match="answered 'Where\\?' with nothing; ask in other"):
        attributor.ask("Where?", ["The treaty."], max_new_tokens=3, eos_token_id=0)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", None, "c"], "3 of {} documents (a, document 2, c)"),
        (list("abcdefgh"), "8 of {} documents (a, b, c, d, e, and 3 more)"),
    ],
)
def test_a_note_counts_and_names_documents_that_are_missing(
    attributor: Attributor, ids: list[str | None], expected: str
) -> None:
    absent = [
        Document(f"Penguins of colony {index} cannot fly at all, they swim.", name)
        for index, name in enumerate(ids)
    ]
    result = attributor.attribute(PROMPT, ANSWER, [*absent, *DOCUMENTS])
    (note,) = [note for note in result.notes if "did not receive" in note]
    assert expected.format(len(absent) + len(DOCUMENTS)) in note
    assert " ".join(result.to_table(width=1000).split()).count(note) == 1
    assert all(0 not in source.documents for source in result.sources)


def test_an_unlikely_answer_is_noted() -> None:
    certain = copy.deepcopy(byte_level().model)
    head_weights(certain).mul_(30)
    attributor = Attributor(certain, byte_level().tokenizer, progress=False)
    result = attributor.attribute(messages(), ANSWER, DOCUMENTS)
    assert sum(result.token_log_likelihoods) / len(result.token_log_likelihoods) < -6
    assert any("very unlikely" in note for note in result.notes)


def test_too_long_for_the_model() -> None:
    model = build("llama")
    prompt, document = "x" * 200 + " The treaty. ", "The treaty."
    with pytest.raises(ContextTooLong, match=r"take 257 tokens, .* has 256; retrieve fewer"):
        attributor_of(model).attribute(prompt, "y" * (258 - len(prompt)), [document])


def test_a_question_is_too_long_before_the_model_runs() -> None:
    model = build("llama")
    model.model.register_forward_pre_hook(lambda *_: pytest.fail("the model runs"))
    with pytest.raises(ContextTooLong, match=r"take \d+ tokens, .* has 256; retrieve fewer"):
        attributor_of(model).ask("Where?", ["The treaty was signed here. " * 20])


def test_an_answer_has_as_many_tokens_as_fit() -> None:
    model = build("llama")
    model.model.generation_config.eos_token_id = None
    documents = ["The treaty was signed here. " * 3]
    result = attributor_of(model).ask("Where?", documents, max_new_tokens=300)
    num_tokens = len(result.token_spans)
    assert num_tokens + result.provenance.prompt_tokens == 257
    assert any(f"limit of {num_tokens} tokens; no more tokens fit" in note for note in result.notes)
    short = attributor_of(model).ask("Where?", documents, max_new_tokens=3)
    assert any("limit of 3 tokens; raise max_new_tokens" in note for note in short.notes)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_last_token_needs_no_position(name: str) -> None:
    model = build(name)
    prompt = "x" * 200 + " The treaty. "
    result = attributor_of(model).attribute(prompt, "y" * (257 - len(prompt)), ["The treaty."])
    assert len(result.token_spans) + result.provenance.prompt_tokens == 257


@pytest.mark.parametrize(
    ("value", "implementation"), [(float("nan"), "auto"), (float("inf"), "reference")]
)
def test_weights_that_are_not_finite(value: float, implementation: str) -> None:
    broken = copy.deepcopy(MODEL.model)
    head_weights(broken)[7, 3] = value
    scoring = ScoringOptions(implementation=implementation)
    attributor = attributor_of(LocalModel(broken, MODEL.tokenizer), scoring=scoring)
    with pytest.raises(ScoringFailed, match=r"of the full prompt is (nan|-inf) at response"):
        attributor.attribute(PROMPT, ANSWER, DOCUMENTS)


def test_one_token_of_a_document_that_is_not_finite() -> None:
    """Without the source that breaks them the numbers are fine, but not with it."""
    broken = copy.deepcopy(MODEL.model)
    token_id = MODEL.encode(" harbour")[0]
    broken.get_parameter("model.embed_tokens.weight").data[token_id] = float("nan")
    attributor = attributor_of(LocalModel(broken, MODEL.tokenizer), method="leave_one_out")
    with pytest.raises(ScoringFailed, match="try float32 or bfloat16"):
        attributor.attribute(PROMPT, "In the hall.", DOCUMENTS)


MARKED = "The markers <|im_start|> and <|im_end|> begin and end a turn. They are tokens."


@pytest.mark.parametrize("parsed", [True, False])
def test_special_tokens_in_a_document(attributor: Attributor, parsed: bool) -> None:
    """The tokenizer makes special ids of them, unless an application encodes them as text."""
    start, _, rest = rendered(MODEL, ["THE DOCUMENTS"]).partition("THE DOCUMENTS")
    prompt_ids = (
        *MODEL.encode(start, special=True),
        *MODEL.encode("\n".join([MARKED, *DOCUMENTS]), special=parsed),
        *MODEL.encode(rest, special=True),
    )
    assert prompt_ids.count(EOS) == 1 + parsed
    response_ids = MODEL.encode(ANSWER)
    result = attributor.attribute(prompt_ids, response_ids, [MARKED, *DOCUMENTS])
    assert result.not_located == ()
    assert result.provenance.prompt_tokens == len(prompt_ids)
    truth = plain_scores(MODEL.model, prompt_ids, response_ids)
    assert result.token_log_likelihoods == pytest.approx(truth.tolist(), abs=1e-4)
    texts = [source.text.strip() for source in result.sources]
    assert "The markers <|im_start|> and <|im_end|> begin and end a turn." in texts
    assert all(result.exact)


@pytest.mark.parametrize(
    ("escape", "is_cut"), [(json.dumps, False), (lambda text: text[: len(text) // 2], True)]
)
def test_a_document_that_was_escaped_or_cut(
    attributor: Attributor, escape: Callable[[str], str], is_cut: bool
) -> None:
    """The whole document is removed from the prompt, or a note says how much of it is not."""
    document = 'It reads "Nobody & nothing".\n\tThe queen asked for it.\nMany letters are lost.\n'
    result = attributor.attribute(rendered(MODEL, [escape(document)]), ANSWER, [document])
    assert any("39% of document 1" in note for note in result.notes) == is_cut
    assert bool(result.partly_located) == is_cut
    assert result.sources[0].text == 'It reads "Nobody & nothing".'


UNICODE = (
    "Ein Emoji 🙂 und eine Familie 👩‍👩‍👧 stehen hier. Danach kommt nichts.",
    "Kombiniert: cafe\u0301, n\u0303, a\u0300\u0323. Noch ein Satz.",
    "האמנה נחתמה בעיר. השער היה סגור.",
    "条約は町で署名された。港は閉鎖されていた。",
    "Zeilen\r\nmit CRLF. Und\r\n\r\nnoch eine.",
)


@pytest.mark.parametrize("make", [byte_level, metaspace, byt5])
def test_unicode(make: Any) -> None:
    model: LocalModel = make()
    response = "🙂 cafe\u0301 האמנה 条約\r\n."
    attributor = attributor_of(model, method="leave_one_out")
    result = attributor.attribute(rendered(model, UNICODE), response, UNICODE)
    assert result.not_located == ()
    assert result.response == response
    assert len(result.sources) >= 9
    assert all(row is not None for row in result.token_scores)
    assert all(any(row or ()) for row in result.token_scores)
    joined = "".join(source.text for source in result.sources)
    assert all(character in joined for text in UNICODE for character in text.replace("\n", ""))


HALF = "cut in an emoji \ud83d"


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("the prompt", {"prompt": PROMPT + HALF}),
        ("the prompt[1]", {"prompt": [*messages()[:1], {"role": "user", "content": HALF}]}),
        ("the response", {"response": ANSWER + HALF}),
        ("documents[1]", {"documents": [DOCUMENTS[0], Document(HALF)]}),
    ],
)
@pytest.mark.parametrize("is_reader", [False, True])
def test_half_of_a_surrogate_pair_is_refused_where_it_stands(
    place: str, values: dict[str, Any], is_reader: bool
) -> None:
    attributor = attributor_of(MODEL, method="leave_one_out", is_reader=is_reader)
    with pytest.raises(InvalidInput) as refused:
        attributor.attribute(**{**ARGUMENTS, **values})
    assert str(refused.value).startswith(f"{place} has half of a surrogate pair, U+D83D")


def test_half_of_a_surrogate_pair_is_not_asked(attributor: Attributor) -> None:
    with pytest.raises(InvalidInput, match="the question has half of a surrogate pair"):
        attributor.ask(HALF, DOCUMENTS)
    with pytest.raises(InvalidInput, match=r"documents\[0\] has half of a surrogate pair"):
        attributor.ask("who?", [HALF])
    with pytest.raises(InvalidInput, match="U\\+D83D, at character 16"):
        MODEL.encode(HALF)


def test_a_question_without_words_is_refused(attributor: Attributor) -> None:
    with pytest.raises(InvalidInput, match="the question is empty"):
        attributor.ask(" \n", DOCUMENTS)
