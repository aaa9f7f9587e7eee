import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import copy

import pytest
from hypothesis import HealthCheck, settings
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.patience import PATIENCE
from support.session_models import smollm2 as smollm2
from support.tiny_models import byte_level

from attribot_rag.scoring.local.backend import LocalBackend

QUICK_ROOMS = ("annotation", "context", "attribution", "result", "recording", "verdicts")

# How long an example takes says how busy the machine is. `tasks/fuzz` asks for more examples,
# others each time; without it, a change is judged by the same examples as the one before.
EXAMPLES = os.environ.get("HYPOTHESIS_MAX_EXAMPLES")
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(EXAMPLES or 50),
    derandomize=EXAMPLES is None,
)
settings.load_profile("any machine")


# What is counted must not depend on how fast this machine runs a tiny model, not even in a backend
# that is made while a test's file is read.
pytest.MonkeyPatch().setattr(LocalBackend, "pass_tokens", 0)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The time that a test may take, where the command line does not say it."""
    if config.option.timeout is None:
        config.option.timeout = float(config.getini("timeout")) * PATIENCE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items, QUICK_ROOMS)


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
