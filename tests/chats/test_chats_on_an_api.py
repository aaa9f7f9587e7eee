"""Both chats in a browser, on the API of another model, which the embedded one reads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from chats import test_chainlit_chat, test_gradio_chat
from playwright.sync_api import Page, expect
from support.chat_apps import PATIENCE, chainlit_chat, gradio_chat
from support.chat_server import chat_server
from support.service_process import CORPUS

pytestmark = pytest.mark.slow
HIGH = "How high is the lighthouse?"


def answer(prompt: str) -> str:
    return "It is 38 metres high." if "38 metres" in prompt else "I do not know."


@pytest.mark.parametrize(
    ("chat", "running"),
    [(test_gradio_chat, gradio_chat), (test_chainlit_chat, chainlit_chat)],
)
def test_an_api_answers_and_the_embedded_model_reads(
    chat: ModuleType,
    running: Callable[..., AbstractContextManager[str]],
    new_page: Callable[..., Page],
    tmp_path: Path,
) -> None:
    if running is chainlit_chat and not find_spec("llama_index.llms.openai_like"):
        pytest.skip("needs llama-index-llms-openai-like, whose openai is older than LangChain's")
    with chat_server(answer) as (api, asked):
        variables = {"CHAT_API": f"{api}/v1", "CHAT_MODEL": "gpt-4o"}
        with running(CORPUS, tmp_path, **variables) as address:
            size = {"width": 1280, "height": 800}
            page = chat.opened(new_page(timeout=PATIENCE, viewport=size), address)
            chat.ask(page, HIGH)
            read = chat.receipts(page)
            supported = read.locator(".sentence.document")
            expect(supported).to_contain_text("lighthouse", timeout=PATIENCE)
            expect(read.locator(".reader")).to_contain_text("answered by gpt-4o")
            supported.locator(".pill").first.click()
            read.get_by_role("button", name="(one call)").first.click()
            without = read.locator(".counterfactual .text").first
            expect(without).to_have_text("I do not know.", timeout=PATIENCE)
            assert len(asked) == 2
