"""Models as fixtures, for the tests of all packages."""

import pytest

from attribot_rag import LocalModel, load_model
from support.tiny_models import endless, smollm2_tokenizer


@pytest.fixture(scope="session")
def smollm2() -> LocalModel:
    """The embedded model: real weights, offline."""
    return load_model()


@pytest.fixture(scope="session")
def tiny() -> LocalModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2_tokenizer())
