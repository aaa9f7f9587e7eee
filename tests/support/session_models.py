"""The models that tests of several packages share, as fixtures."""

import copy

import pytest

from attribot_rag import LocalModel, load_model
from support.tiny_models import byte_level, endless, smollm2_tokenizer


@pytest.fixture(scope="session")
def smollm2() -> LocalModel:
    """The embedded model: real weights, offline."""
    return load_model()


@pytest.fixture(scope="session")
def tiny() -> LocalModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2_tokenizer())


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a model that babbles until it is stopped."""
    folder = tmp_path_factory.mktemp("tiny")
    language_model = byte_level()
    model = copy.deepcopy(language_model.model)
    assert model.generation_config is not None
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    language_model.tokenizer.save_pretrained(folder)
    return str(folder)
