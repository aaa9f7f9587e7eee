"""Both chats in a browser, on the API of another model, which the embedded one reads."""

import re
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
STOP: dict[Callable[..., AbstractContextManager[str]], str] = {
    gradio_chat: "button:has-text('Stop')",
    chainlit_chat: "#stop-button",
}


def answer(prompt: str) -> str:
    return "It is 38 metres high." if "38 metres" in prompt else "I do not know."


def require_client_of(running: object) -> None:
    if running is chainlit_chat and not find_spec("llama_index.llms.openai_like"):
        pytest.skip("needs llama-index-llms-openai-like, whose openai is older than LangChain's")


both = pytest.mark.parametrize(
    ("chat", "running"),
    [(test_gradio_chat, gradio_chat), (test_chainlit_chat, chainlit_chat)],
)


@both
def test_an_api_answers_and_the_embedded_model_reads(
    chat: ModuleType,
    running: Callable[..., AbstractContextManager[str]],
    new_page: Callable[..., Page],
    tmp_path: Path,
) -> None:
    require_client_of(running)
    with chat_server(answer) as (api, asked):
        variables = {"CHAT_API": f"{api}/v1", "CHAT_MODEL": "gpt-4o"}
        with running(CORPUS, tmp_path, **variables) as address:
            size = {"width": 1280, "height": 800}
            page = chat.opened(new_page(timeout=PATIENCE, viewport=size), address)
            chat.ask(page, HIGH)
            read = chat.receipts(page)
            supported = read.locator(".sentence.document")
            expect(supported).to_have_count(1, timeout=PATIENCE)
            expect(read.locator(".reader")).to_contain_text("answered by gpt-4o")
            supported.first.click()
            expect(read.locator(".card")).to_contain_text("lighthouse.md")
            read.get_by_role("button", name="(one call)").first.click()
            without = read.locator(".counterfactual").first
            expect(without).to_contain_text("I do not know.", timeout=PATIENCE)
            assert len(asked) == 2


@pytest.mark.long
@both
def test_a_stopped_answer_of_an_api_is_read_as_far_as_it_is_shown(
    chat: ModuleType,
    running: Callable[..., AbstractContextManager[str]],
    new_page: Callable[..., Page],
    tmp_path: Path,
) -> None:
    require_client_of(running)
    endless = f"It is 38 metres high. {'Ships see it at night. ' * 1000}"
    with chat_server(endless, pause=0.2) as (api, asked):
        variables = {"CHAT_API": f"{api}/v1", "CHAT_MODEL": "gpt-4o"}
        with running(CORPUS, tmp_path, **variables) as address:
            page = chat.opened(new_page(timeout=PATIENCE), address)
            chat.ask(page, HIGH)
            expect(chat.answers(page).first).to_contain_text("38 metres high.", timeout=PATIENCE)
            page.locator(STOP[running]).click()
            before = chat.answers(page).first.inner_text()
            sentences = chat.receipts(page).locator(".sentence")
            expect(page.locator(".answer .chip").last).to_have_text("stopped", timeout=PATIENCE)
            shown = " ".join(sentences.all_inner_texts())
            assert shown.startswith(before) and len(shown) < len(before) + 60
            source = chat.receipts(page).locator(".answer .chip").first
            expect(source).to_have_accessible_name(re.compile("lighthouse"), timeout=PATIENCE)
            assert len(asked) == 1 and asked[0]["is_closed"]
