import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterator

import pytest
from hypothesis import settings
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.patience import pytest_configure as pytest_configure
from support.service_process import service
from support.session_models import tiny as tiny
from support.session_models import tiny_model as tiny_model

settings.register_profile("any machine", deadline=None, derandomize=True)
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.fixture(scope="module")
def shared_service(tiny_model: str) -> Iterator[str]:
    """The address of a service with much time, and the tokens `hostile` and `small`."""
    options = ("--waiting", "8", "--method", "leave_one_out")
    with service(tiny_model, *options, token="hostile\nsmall") as (address, _):
        yield address


@pytest.fixture(scope="session")
def two_clients(tiny_model: str) -> Iterator[str]:
    """The address of a service with a short queue, and the tokens `hostile` and `small`."""
    options = ("--seconds", "1", "--waiting", "4", "--method", "leave_one_out")
    with service(tiny_model, *options, token="hostile\nsmall") as (address, _):
        yield address


@pytest.fixture
def anyio_backend() -> str:
    """Tests that are coroutines run in asyncio alone."""
    return "asyncio"
