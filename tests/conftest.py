import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from hypothesis import HealthCheck, settings
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.patience import pytest_configure as pytest_configure
from support.session_models import smollm2 as smollm2
from support.session_models import tiny_model as tiny_model

from attribot_rag.scoring.local_backend import LocalBackend

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items, QUICK_ROOMS)
