import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import copy
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from support.browser import browser
from support.tiny_models import byte_level

from attribot_rag.language_model import LanguageModel
from attribot_rag.models import load_model


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    """The embedded model: real weights, offline."""
    return load_model()


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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of a module, not of all: asyncio's tests can't run while playwright's loop does."""
    with browser() as started:
        yield started
