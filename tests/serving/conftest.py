from collections.abc import Iterator

import pytest
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.service_process import service
from support.tiny_models import endless

from attribot_rag import LocalModel


@pytest.fixture(scope="session")
def chatty(smollm2: LocalModel) -> LocalModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2.tokenizer)


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
