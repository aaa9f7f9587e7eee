"""The model that a benchmark scores, and the prompts of one without a chat template."""

import copy
from pathlib import Path

import pytest
from support.tiny_models import byte_level

from benchmarks.models import load_chat_model

MESSAGES = [
    {"role": "user", "content": "Which door?"},
    {"role": "assistant", "content": "Mint."},
    {"role": "user", "content": "Is fog rare?"},
]
BEGIN = "<|im_start|>"


@pytest.mark.parametrize("has_template", [True, False])
def test_a_base_model_reads_the_messages_and_others_their_own_template(
    tmp_path: Path, has_template: bool
) -> None:
    language_model = byte_level()
    tokenizer = copy.deepcopy(language_model.tokenizer)
    if not has_template:
        tokenizer.chat_template = None
    language_model.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_chat_model(str(tmp_path))
    prompt = loaded.decode(loaded.encode_prompt(MESSAGES))
    if has_template:
        assert prompt == language_model.decode(language_model.encode_prompt(MESSAGES))
    else:
        assert prompt == f"{BEGIN}Which door?\n\nMint.\n\nIs fog rare?\n\nAnswer:"
