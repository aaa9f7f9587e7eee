import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

from attribot_rag.language_model import LanguageModel
from attribot_rag.models import load_model


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    """The embedded model: real weights, offline."""
    return load_model()
