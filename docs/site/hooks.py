"""The site's pages that stand elsewhere in the repository, notebooks, and links to other files.

Documents link to files of the repository as GitHub wants it. Here such a link becomes one within
the site: of a README to its page, of another file to a page that shows it.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from griffe import stdlib_decorators
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "integrations/attribot-batch/README.md": "attribot-batch.md",
    "integrations/attribot-checks/README.md": "attribot-checks.md",
    "integrations/attribot-server/README.md": "attribot-server.md",
    "integrations/langchain-attribot/README.md": "langchain.md",
    "integrations/llama-index-postprocessor-attribot/README.md": "llama-index.md",
}
SHOWN = "repository"  # the folder of the pages that show a file
NOTEBOOK = ".ipynb"
LANGUAGES = {".py": "python", ".jsonl": "json"}

# The reference shows properties as attributes, those of our own decorator, too.
stdlib_decorators["attribot_rag.cached_property.cached_property"] = {"cached", "property"}

_LINK = re.compile(r"""(?<=\]\()(?!\w+:|#|/)[^)#\s]+|(?<=src=")[^":]+|(?<=srcset=")[^":]+""")
_CHIP = re.compile(r"(?<=<tr>\n)<td>(.*?)(?: ?\((dashed|amber)\))?</td>")
_FIGURE = re.compile(r"^!\[[^\]]*\]\(([^)\s]+)\)$", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for notebook in [file for file in files if file.src_uri.endswith(NOTEBOOK)]:
        page = notebook.src_uri.removesuffix(NOTEBOOK) + ".md"
        files.append(File.generated(config, page, content=_notebook(notebook)))
    for path in sorted(set(_linked_files(files))):
        files.append(File.generated(config, f"{SHOWN}/{path}.md", content=_shown(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = _source(page.file)

    def on_site(link: re.Match[str]) -> str:
        target = _target(source, link[0])
        return relpath(target, dirname(page.file.src_uri)) if target else link[0]

    # A figure opens by a click: on a phone it is small.
    return _LINK.sub(on_site, _FIGURE.sub(r"[\g<0>](\1)", markdown))


def on_page_content(html: str, *, page: Page, **_: object) -> str:
    """The home with the answer itself for its picture, which is for readers without scripts."""
    if page.file.src_uri != PAGES["README.md"]:
        return _CHIP.sub(_chip, html) if page.file.src_uri == "answers.md" else html
    picture = html[html.index("<picture>") : html.index("</picture>") + len("</picture>")]
    data = json.dumps(json.loads((ROOT / "docs" / "site" / "answer.json").read_text("utf-8")))
    script = runpy.run_path(str(ROOT / "attribot_rag" / "display" / "script.py"))
    element = (
        f'<attribot-answer data="{escape(data)}" cards="flow" open>{picture}</attribot-answer>'
    )
    return html.replace(picture, f"{element}<script>{script['element_script']()}</script>")


def _chip(cell: re.Match[str]) -> str:
    """What stands after a sentence, as it looks there."""
    shown, look = cell[1], {"dashed": "part", "amber": "warn"}.get(cell[2] or "", "note")
    parts = re.split(r"<strong>(.*?)</strong>", shown.strip())
    if len(parts) > 1:
        look = "" if look == "note" else look
        inside = (f'<span class="chip {look}">{text}</span>' for text in parts[1::2])
        return f"<td>{f' {parts[2].strip()} '.join(inside)}</td>"
    return f'<td><span class="chip {look}">{shown.strip()}</span></td>'


def on_post_page(output: str, **_: object) -> str:
    """The page with a name for the theme's search."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


on_post_template = on_post_page  # the page for what is not found


def _linked_files(files: Files) -> list[str]:
    targets = [
        _target(_source(file), link)
        for file in files.documentation_pages()
        for link in _LINK.findall(file.content_string)
    ]
    prefix = SHOWN + "/"
    return [
        target.removeprefix(prefix).removesuffix(".md")
        for target in targets
        if target and target.startswith(prefix)
    ]


def _source(file: File) -> str:
    """The page's path in the repository."""
    names = {page: source for source, page in PAGES.items()}
    return names.get(file.src_uri, f"docs/{file.src_uri}")


def _target(source: str, link: str) -> str | None:
    """The page for what the repository's file `source` links to; None if there is no such file."""
    path = normpath(join(dirname(source), link))
    if (ROOT / path / "README.md").is_file():
        path = join(path, "README.md")
    if path in PAGES:
        return PAGES[path]
    if not (ROOT / path).is_file():
        return None
    inside = path.removeprefix("docs/")
    if inside != path and path.endswith(NOTEBOOK):
        return inside.removesuffix(NOTEBOOK) + ".md"
    return inside if inside != path and not path.endswith(".py") else f"{SHOWN}/{path}.md"


def _shown(path: str) -> str:
    language = LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}\n````\n"


def _notebook(file: File) -> str:
    """Its cells with what they print and show, and a link to the notebook itself."""
    cells = json.loads(file.content_string)["cells"]
    name = Path(file.src_uri).name
    parts = [part for cell in cells for part in _parts(cell)]
    return "\n\n".join([*parts, f'<a href="../{name}" download>This page as a notebook</a>\n'])


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    yield text if cell["cell_type"] == "markdown" else f"````python\n{text}\n````"
    for output in cell.get("outputs", ()):
        shown = output.get("data", {"text/plain": output.get("text")})
        for kind, lines in shown.items():
            value = "".join(lines).rstrip()
            yield value if kind == "text/markdown" else f"````text\n{value}\n````"
