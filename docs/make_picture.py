"""Draw the README's picture: a real answer of the embedded model, as the terminal shows it.

python docs/make_picture.py
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from attribot_rag import Attributor, load_model
from attribot_rag.corpus import read_chunks, retrieve
from attribot_rag.display import render_table

ROOT = Path(__file__).parents[1]
QUESTION = "How many passengers does the ferry Kittiwake carry?"
WIDTH = 92
SVG = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="8" fill="#0c0c0c"/>
<g transform="translate(9, 4)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    language_model = load_model()
    attributor = Attributor(language_model)
    documents = retrieve(QUESTION, read_chunks([ROOT / "examples" / "corpus"]), 4)
    table = render_table(attributor.ask(QUESTION, documents), top=0, width=WIDTH, color=True)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text(f' $ attribot-rag ask "{QUESTION}" examples/corpus', style="bold green"))
    console.print()
    console.print(Text.from_ansi(table.rstrip()))
    picture = console.export_svg(code_format=SVG, theme=MONOKAI, unique_id="demo")
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    (images / "demo.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
