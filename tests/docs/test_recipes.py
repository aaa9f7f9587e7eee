"""The recipes of docs/answers.md for React and Streamlit, in a real browser (`tasks/recipes`)."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.attributions import ISLAND
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.chat_apps import streamlit_application
from support.patience import scaled
from support.receipts import receipts

from attribot_rag.display import element_script

ROOT = Path(__file__).parents[2]
RECIPES = (ROOT / "docs" / "answers.md").read_text("utf-8")
MODULES = ROOT / "build" / "recipes" / "node_modules"
STREAMLIT = ROOT / ".venv-recipes" / "bin" / "python"
pytestmark = pytest.mark.browser

APPLICATION = """
import { createRoot } from "react-dom/client";
import { useState } from "react";
import { Answer } from "./Answer.jsx";
const other = async (documents) => `Without ${documents} it costs 20 crowns.`;
function Application() {
  const [data, setData] = useState(window.first);
  return <main>
    <button onClick={() => setData(window.later)}>More</button>
    <Answer data={data} otherAnswer={other} />
  </main>;
}
createRoot(document.body.appendChild(document.createElement("div"))).render(<Application />);
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A page with the element's script and the recipe in an application, as esbuild bundles it."""
    if not MODULES.is_dir():
        pytest.skip("tasks/recipes brings React and esbuild")
    recipe = re.search(r"```jsx\n(.*?)```", RECIPES, re.DOTALL)
    assert recipe is not None
    (tmp_path / "Answer.jsx").write_text(recipe[1], "utf-8")
    (tmp_path / "application.jsx").write_text(APPLICATION, "utf-8")
    (tmp_path / "node_modules").symlink_to(MODULES)
    options = ("--bundle", "--jsx=automatic", "--outfile=application.js", "--log-level=warning")
    esbuild = MODULES / ".bin" / "esbuild"
    subprocess.run([esbuild, "application.jsx", *options], cwd=tmp_path, check=True)
    first = receipts()
    for later in first["summary"]["sentences"][2:]:
        later |= {"verdict": "open", "reason": "pending", "checks": []}
    first["summary"]["status"] = "pending"
    data = f"window.first = {json.dumps(first)}; window.later = {json.dumps(receipts())}"
    (tmp_path / "data.js").write_text(data, "utf-8")
    (tmp_path / "attribot-answer.js").write_text(element_script(), "utf-8")
    names = ("data", "attribot-answer", "application")
    scripts = "".join(f'<script src="{name}.js"></script>' for name in names)
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><body>{scripts}", "utf-8")
    return tmp_path / "page.html"


@pytest.fixture
def streamlit(tmp_path: Path) -> Iterator[str]:
    """The address of an application with the recipe's line, for an attribution made here."""
    if not STREAMLIT.is_file():
        pytest.skip("tasks/recipes brings Streamlit")
    recipe = re.search(r"`(st\.[^`]+)`", RECIPES)
    assert recipe is not None
    (tmp_path / "fragment.html").write_text(ISLAND.to_html(page=False), "utf-8")
    (tmp_path / "application.py").write_text(
        "from pathlib import Path\nimport streamlit as st\n\n\nclass attribution:\n"
        "    def to_html(page):\n"
        '        return Path(__file__).with_name("fragment.html").read_text("utf-8")\n\n\n'
        f"{recipe[1]}\n"
    )
    with streamlit_application(STREAMLIT, tmp_path / "application.py") as address:
        yield address


def test_react_gives_the_data_and_other_answers(
    new_page: Callable[..., Page], bundle: Path
) -> None:
    page = new_page()
    page.goto(bundle.as_uri())
    expect(page.locator(".sentence.checking")).to_have_count(7)
    page.locator(".sentence", has_text="18 crowns").click()
    page.get_by_role("button", name="What does the model answer without").click()
    expect(page.locator(".counterfactual")).to_contain_text("Without 0 it costs 20 crowns.")
    page.get_by_role("button", name="More").click()
    expect(page.locator(".sentence.checking")).to_have_count(0)
    expect(page.locator(".counterfactual")).to_contain_text("20 crowns")  # it stays open
    assert page.locator(".trust").count() == 1


def test_streamlit_shows_the_fragment_in_a_frame(
    new_page: Callable[..., Page], streamlit: str
) -> None:
    page = new_page()
    page.goto(streamlit)
    frame = page.frame_locator("iframe").first
    frame.locator(".answer .chip").first.click(timeout=scaled(30_000))
    expect(frame.locator(".card dd").first).to_be_visible()
