"""Sources of the distributions: their repository and their links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://example.org/owner/attribot-rag"
PACKAGES = [
    ".",
    "integrations/attribot-batch",
    "integrations/attribot-checks",
    "integrations/attribot-server",
    "integrations/langchain-attribot",
    "integrations/llama-index-postprocessor-attribot",
]

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")


def sources(folder: Path, *address: str) -> Path:
    command = [sys.executable, str(ROOT / ".ci/sources.py"), str(folder), *address]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def addresses(readme: Path) -> list[str]:
    def within(tokens: list[Token]) -> list[Token]:
        return [item for token in tokens for item in (token, *within(token.children or []))]

    tokens = within(MarkdownIt().enable("table").parse(readme.read_text("utf-8")))
    links = [token.attrGet("href") or token.attrGet("src") for token in tokens]
    return [str(link) for link in links if link]


def test_a_release_names_its_repository_and_links_to_its_tag(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", REPOSITORY, "1.2.3")
    for package in PACKAGES:
        project = (folder / package / "pyproject.toml").read_text("utf-8")
        assert f'\n[project.urls]\nRepository = "{REPOSITORY}"\n' in project
        assert "\nauthors = " in project
        links = addresses(folder / package / "README.md")
        assert [link for link in links if not link.startswith(("https://", "#"))] == []
        own = [link.partition("#")[0] for link in links if link.startswith(REPOSITORY)]
        given = addresses(ROOT / package / "README.md")
        to_files = [link for link in given if not link.startswith(("https://", "#"))]
        assert len(own) == len(to_files) > 0
        for link in own:
            _, tag, path = link.removeprefix(REPOSITORY + "/").split("/", 2)
            assert tag == "v1.2.3"
            assert (ROOT / path).exists()
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', (folder / "README.md").read_text("utf-8"))
    assert len(pictures) == 4  # light and dark, on a desk and on a phone
    for picture in pictures:
        path = picture.removeprefix(f"{REPOSITORY}/raw/v1.2.3/")
        assert (ROOT / path).is_file()


def test_without_a_repository_the_sources_are_the_tracked_files(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources")
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (ROOT / path.relative_to(folder)).read_bytes()
