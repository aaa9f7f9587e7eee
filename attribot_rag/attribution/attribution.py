"""The public result: the scores of one response, with its renderings and its JSON."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from attribot_rag.attribution.serialization import from_plain, parsed, plain, to_json
from attribot_rag.display import render_cited, render_html, render_markdown, render_table
from attribot_rag.display.own_markers import Markers
from attribot_rag.result import Result
from attribot_rag.result.summary_schema import SCHEMA_VERSION


@dataclass(frozen=True, kw_only=True, repr=False)
class Attribution(Result):
    """The support that each source in the prompt gives to each token of one response.

    Scores are leave-one-out errors in nats: log p(response | full prompt) - log p(response |
    prompt without the source); positive where the source supports the response. Characters are
    Unicode code points, intervals [start, end) from 0.
    """

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists, strings, finite numbers, booleans and None (docs/schemas/attribution.json).

        Metadata that JSON does not know is written as text.
        """
        return {"schema_version": SCHEMA_VERSION, **plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attribution:
        """The attribution of `to_dict`'s data; raises SchemaError for anything else."""
        attribution: Attribution = from_plain(cls, data)
        return attribution

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text of `to_dict`; with `indent` on many lines, but each row of numbers on one."""
        return to_json(self.to_dict(), indent)

    @classmethod
    def from_json(cls, text: str) -> Attribution:
        """The attribution of `to_json`'s text; raises SchemaError for anything else."""
        return cls.from_dict(parsed(text))

    def to_table(self, *, top: int = 5, width: int | None = None, color: bool = False) -> str:
        """The answer with citations and its `top` sources, for a terminal of `width` columns.

        With `top=0` it is the answer and what it cites, without any figures.
        """
        return render_table(self, top=top, width=width, color=color)

    def to_cited_text(
        self, *, remarks: bool = True, markers: Markers = "audited", sources: bool = False
    ) -> str:
        """The answer with the numbers of each sentence's cited documents.

        It is the text as it is, for a program: a control character of an answer or a document is
        still in it. Print `attribot_rag.display.visible(attribution.to_cited_text())`.

        With `sources`, what the numbers stand for comes after the answer, a line for each document,
        as in '[1] ferry.txt: "A loaf costs 7 crowns."' `markers` says what becomes of the model's
        own markers, such as [2]: 'audited', one that the audit supports is the citation, and a
        measured citation stands for any other, with the remark '(the model cites [3], which has no
        effect on it)'; 'written', they stay as the model wrote them, beside the citations;
        'removed', only measured citations are shown. Raises InvalidInput for another option.

        With `remarks`, what the numbers do not show stands in brackets after the sentences. Of the
        cause: '(from the conversation)', '(follows from sentence 1)', '(needs both)', '(source
        unclear)', '(answer cut off by the length limit)'. Of the support: '(prompted by [2], which
        does not mention tenant, notice)', '(84 in [2])', '(also in [2])', '(not in the 3 passages
        found)', '(12.90 is in none of the documents)'.
        """
        return render_cited(self, remarks=remarks, markers=markers, sources=sources)

    def to_markdown(self, *, top: int = 5) -> str:
        """The table's contents as Markdown; nothing in foreign text takes effect."""
        return render_markdown(self, top=top)

    def to_html(
        self, *, question: str = "", theme: str = "auto", answer: bool = True, page: bool = True
    ) -> str:
        """A page of HTML that loads nothing, or a part of one (`page` False).

        The answer, in which a click on a sentence shows what made the model say it. `theme` is
        'auto', 'light' or 'dark'; without `answer`, only the evidence is shown. Raises InvalidInput
        for another theme.
        """
        return render_html(self, question=question, theme=theme, answer=answer, page=page)

    def _repr_html_(self) -> str:
        """The HTML fragment for notebooks."""
        return self.to_html(page=False)

    def _repr_markdown_(self) -> str:
        """The notebook's output where HTML is not rendered."""
        return self.to_markdown(top=0)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's output in a terminal."""
        printer.text(self.to_table(top=0).rstrip())

    def show(self) -> Path:
        """Open the page in the web browser; it is written to a file, whose path is returned."""
        with NamedTemporaryFile("w", encoding="utf-8", suffix=".html", delete=False) as file:
            file.write(self.to_html())
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)
