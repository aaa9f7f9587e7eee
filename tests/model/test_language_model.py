"""Encoding and decoding by any model's tokenizer."""

import os
import threading
from typing import Any

import numpy as np
import pytest
import torch
from faults.test_forking import forked
from support.scripted_generation import DOCUMENTS, messages, rendered
from support.tiny_models import (
    byt5,
    byte_level,
    byte_tokenizer,
    metaspace,
    unshared,
)
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import Attributor
from attribot_rag.errors import ContextTooLong, InvalidInput, TokenizerMismatch
from attribot_rag.model.local_model import LocalModel

BYTE_LEVEL = byte_level()
METASPACE = metaspace()
BYT5 = byt5()
ALL = pytest.mark.parametrize("model", [BYTE_LEVEL, METASPACE, BYT5], ids=["bpe", "sp", "byt5"])
SPECIAL = {id(BYTE_LEVEL): "<|im_end|>", id(METASPACE): "</s>", id(BYT5): "</s>"}


def sized(vocabulary_size: int) -> LlamaForCausalLM:
    sizes: Any = dict.fromkeys(("hidden_size", "intermediate_size"), 8)
    counts: Any = dict.fromkeys(("num_hidden_layers", "num_attention_heads"), 1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary_size, **sizes, **counts))


def test_the_tokenizer_of_another_model() -> None:
    with pytest.raises(TokenizerMismatch, match=r"has 259 tokens, the model .* embeds 258"):
        LocalModel(sized(258), byte_tokenizer())
    with pytest.raises(TokenizerMismatch, match="load both from the same checkpoint"):
        LocalModel(sized(259 * 2 + 1), byte_tokenizer())
    assert LocalModel(sized(259 * 2), byte_tokenizer()).vocabulary_size == 518  # it is padded


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/srv/secret/models/smollm2", "smollm2"),
        ("./models/smollm2", "smollm2"),
        ("models/llama/smollm2", "smollm2"),
        ("HuggingFaceTB/SmolLM2", "HuggingFaceTB/SmolLM2"),
    ],
)
def test_errors_and_notes_name_a_model_without_its_folder(name: str, shown: str) -> None:
    language_model = unshared()
    language_model.model.name_or_path = name
    assert (language_model.name, language_model.public_name) == (name, shown)
    with pytest.raises(ContextTooLong, match=f"'{shown}' has 4096") as too_long:
        language_model.check_length(9_999, 1)
    assert "secret" not in str(too_long.value)
    with pytest.raises(TokenizerMismatch, match=f"embeddings of '{shown}'"):
        language_model.encode_prompt([99_999])
    attribution = Attributor(byte_level(), proxy=language_model, method="leave_one_out").attribute(
        messages(), "One.", DOCUMENTS
    )
    assert any(note.endswith(f"the proxy {shown}.") for note in attribution.notes)
    assert attribution.provenance.method == f"proxy ({shown}, leave_one_out)"


@pytest.mark.parametrize(
    ("model", "tokenizer", "message"),
    [
        ("tiny", byte_tokenizer(), r"'tiny' is not a loaded model; pass load_model\('tiny'\)\.mo"),
        (byte_tokenizer(), BYTE_LEVEL.model, "the model comes first, then its tokenizer"),
        (sized(259), "tiny", r"'tiny' is not a loaded tokenizer; .*\('tiny'\)\.tokenizer"),
    ],
)
def test_objects_that_are_no_model_or_tokenizer_are_refused(
    model: Any, tokenizer: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        LocalModel(model, tokenizer)
    with pytest.raises(InvalidInput, match=message):
        Attributor(model, tokenizer)


@pytest.mark.parametrize("tokenizer", [None, BYTE_LEVEL.tokenizer])
def test_a_language_model_is_enough(tokenizer: Any) -> None:
    assert Attributor(BYTE_LEVEL, tokenizer).language_model is BYTE_LEVEL
    for arguments, message in (
        ((BYTE_LEVEL, METASPACE.tokenizer), "has its own tokenizer; leave the other one out"),
        ((sized(259),), "LlamaForCausalLM came without its tokenizer; pass"),
        (("tiny",), "'tiny' is not a loaded model"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Attributor(*arguments)


@ALL
def test_texts_come_back(model: LocalModel) -> None:
    odd = ("Café naïve", "🙂👩‍👩‍👧", "e\u0301a\u0300", "שלום עולם", "条約は", "a\r\nb")
    for text in (*DOCUMENTS, *odd):
        assert model.decode(model.encode(text)) == text
        assert not set(model.encode(text)) & set(model.tokenizer.all_special_ids)
    assert model.encode("") == ()


@ALL
def test_a_special_token_s_string_is_text_unless_asked(model: LocalModel) -> None:
    special = SPECIAL[id(model)]
    text = f"the town{special} hall"
    special_id = model.tokenizer.convert_tokens_to_ids(special)
    assert special_id not in model.encode(text)
    assert special_id in model.encode(text, special=True)
    assert model.decode(model.encode(text)) == text
    assert model.decode(model.encode(text), skip_special_tokens=True) == text


@pytest.mark.parametrize("model", [BYTE_LEVEL, METASPACE], ids=["bpe", "sp"])
def test_the_caller_s_tokenizer_is_left_as_it_is(model: LocalModel) -> None:
    backend = getattr(model.tokenizer, "_tokenizer")  # noqa: B009

    def settings() -> tuple[object, ...]:
        return (backend.padding, backend.truncation, backend.encode_special_tokens)

    model.tokenizer("the town", max_length=3, truncation=True)
    before = settings()
    assert before[1] is not None
    assert len(model.encode("the treaty was signed in the town hall")) > 3
    assert len(model.encode_prompt("the treaty was signed in the town hall")) > 3
    assert settings() == before


def test_messages_are_what_the_template_renders() -> None:
    expected = BYTE_LEVEL.encode(rendered(BYTE_LEVEL), special=True)
    for prompt in (messages(), tuple(messages()), rendered(BYTE_LEVEL)):
        assert BYTE_LEVEL.encode_prompt(prompt) == expected
    assert BYTE_LEVEL.tokenizer.convert_tokens_to_ids("<|im_start|>") in expected


@pytest.mark.parametrize("text", ["the town", "<s>the town"])
def test_one_bos_is_added_unless_it_is_there(text: str) -> None:
    ids = METASPACE.encode_prompt(text)
    assert ids[0] == 1
    assert ids.count(1) == 1


@pytest.mark.parametrize(
    "ids",
    [
        *([5, 6, 7], (5, 6, 7), range(5, 8), torch.tensor([5, 6, 7]), np.array([5, 6, 7])),
        *(list(np.array([5, 6, 7])), list(torch.tensor([5, 6, 7]))),
    ],
)
def test_ids_in_any_shape_of_one_row(ids: Any) -> None:
    encoded = BYTE_LEVEL.encode_prompt(ids)
    assert encoded == (5, 6, 7)
    assert all(type(token_id) is int for token_id in encoded)


@pytest.mark.parametrize(
    "prompt",
    [
        *(torch.tensor([[5, 6]]), [5.0, 6.0], ["a", "b"], {"role": "user", "content": "a"}, [None]),
    ],
)
def test_an_object_that_is_no_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(InvalidInput, match="neither text nor token ids; pass a text"):
        BYTE_LEVEL.encode_prompt(prompt)


def test_a_prompt_without_valid_ids_is_refused() -> None:
    prompt: Any
    for prompt in ("", "  \n", [], (), torch.tensor([], dtype=torch.long)):
        with pytest.raises(InvalidInput, match="the prompt is empty"):
            BYTE_LEVEL.encode_prompt(prompt)
    for token_id in (-1, 10**6):
        with pytest.raises(TokenizerMismatch, match=f"token id {token_id} is outside the"):
            BYTE_LEVEL.encode_prompt([5, token_id])
    with pytest.raises(InvalidInput, match=r"cannot be rendered.*pass the prompt as text or ids"):
        METASPACE.encode_prompt(messages())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_processes_encode_while_a_thread_of_their_parent_does() -> None:
    model = LocalModel(BYTE_LEVEL.model, BYTE_LEVEL.tokenizer)
    text = "the town hall " * 200
    expected = model.encode(text)
    stopped = threading.Event()

    def encode() -> None:
        while not stopped.is_set():
            model.decode(model.encode(text))

    thread = threading.Thread(target=encode)
    thread.start()
    try:
        assert [forked(lambda: model.encode(text) == expected) for _ in range(12)] == [0] * 12
    finally:
        stopped.set()
        thread.join()
