"""The model that a benchmark scores: the embedded one, or another that its command line names."""

from __future__ import annotations

import argparse

from attribot_rag import load_model
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.model.local_model import LocalModel

PLAIN_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}Answer:"
)
"""For a base model, which has no chat template: the messages, then the beginning of an answer."""


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="a folder, a GGUF file or a Hugging Face id; by default the embedded model",
    )


def load_chat_model(name: str = DEFAULT_MODEL, device: str | None = None) -> LocalModel:
    """The model of this name; one without a chat template gets PLAIN_TEMPLATE."""
    language_model = load_model(name, device=device)
    if not language_model.tokenizer.chat_template:
        language_model.tokenizer.chat_template = PLAIN_TEMPLATE
    return language_model
