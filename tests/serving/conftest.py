import pytest
from support.browser import chromium as chromium
from support.tiny_models import endless

from attribot_rag import LanguageModel


@pytest.fixture(scope="session")
def chatty(smollm2: LanguageModel) -> LanguageModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2.tokenizer)
