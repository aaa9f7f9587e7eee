"""Documents that an application escaped on their way into the prompt."""

import csv
import html
import io
import json
import pprint
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.sax import saxutils

import jinja2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.scripts import texts_in_a_script

from attribot_rag.context import Context, ContextOptions, Document, TokenizedText, locate_context
from attribot_rag.context.alignment import AlignedText

ROOT = Path(__file__).parents[2]
FILES = [
    ROOT / "README.md",
    ROOT / "LICENSE",
    ROOT / "tests/context/test_splitter.py",
    *sorted((ROOT / "tests/data/documents").iterdir()),
]


def chunks(file: Path) -> list[str]:
    """Pieces of a file's text, cut at the ends of lines."""
    pieces = [""]
    for line in file.read_bytes().decode().splitlines(keepends=True):
        if len(pieces[-1]) + len(line) > 500:
            pieces.append("")
        pieces[-1] += line
    return pieces[:12]


def as_csv(documents: list[str]) -> str:
    table = io.StringIO()
    csv.writer(table).writerows([[str(index), text] for index, text in enumerate(documents)])
    return table.getvalue()


def rendered(documents: list[str]) -> str:
    template = "{% for text in documents %}<doc>{{ text }}</doc>\n{% endfor %}"
    return jinja2.Environment(autoescape=True).from_string(template).render(documents=documents)


def attributes(documents: list[str]) -> str:
    return "\n".join(f"<doc text={saxutils.quoteattr(text)}/>" for text in documents)


def references(documents: list[str]) -> str:
    return "\n".join(
        saxutils.escape(text).encode("ascii", "xmlcharrefreplace").decode() for text in documents
    )


ESCAPED: dict[str, Callable[[list[str]], str]] = {
    "html.escape": lambda texts: html.escape("\n\n".join(texts)),
    "html.escape without quotes": lambda texts: html.escape("\n\n".join(texts), quote=False),
    "Jinja with autoescape": rendered,
    "XML attributes": attributes,
    "XML with references": references,
    "json.dumps": lambda texts: json.dumps(texts),
    "json.dumps of Unicode": lambda texts: json.dumps({"context": texts}, ensure_ascii=False),
    "json.dumps, indented": lambda texts: json.dumps([{"text": text} for text in texts], indent=2),
    "JSON in JSON": lambda texts: json.dumps({"content": json.dumps(texts)}),
    "JSON in HTML": lambda texts: html.escape(json.dumps(texts, ensure_ascii=False)),
    "str(list)": str,
    "str(documents)": lambda texts: str([Document(text, "a#3", {"page": 3}) for text in texts]),
    "pprint": pprint.pformat,
    "yaml.dump": lambda texts: yaml.safe_dump(texts),
    "yaml.dump of Unicode": lambda texts: yaml.safe_dump({"docs": texts}, allow_unicode=True),
    "CSV": as_csv,
}


def context_of(prompt: str, documents: list[str]) -> Context:
    return locate_context(TokenizedText((), prompt, ()), documents, ContextOptions())


def located_share(context: Context) -> float:
    """Of the characters of all documents."""
    sizes = {index: len(document.text) for index, document in enumerate(context.documents)}
    shares = {**dict.fromkeys(context.not_located, 0.0), **context.partly_located}
    return sum(shares.get(index, 1) * size for index, size in sizes.items()) / sum(sizes.values())


def unescaped(text: str) -> AlignedText:
    return AlignedText.of(text).unescaped()


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@pytest.mark.parametrize("name", ESCAPED)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_located_in_every_form_of_escaping(file: Path, name: str) -> None:
    documents = chunks(file)
    prompt = f"Read this.\n\n{ESCAPED[name](documents)}\n\nWho?"
    context = context_of(prompt, documents)
    assert located_share(context) >= 0.99
    for source in context.sources:
        for place in source.occurrences:
            shown = unescaped(prompt[place.start : place.end]).text
            for span in place.spans:
                excerpt = documents[span.document][span.start : span.end]
                assert letters(source.text) == letters(excerpt)
                assert letters(shown) == letters(unescaped(excerpt).text)


@pytest.mark.slow
@given(
    documents=st.lists(texts_in_a_script(), min_size=1, max_size=3),
    name=st.sampled_from(sorted(ESCAPED)),
)
def test_escaping_is_undone_in_every_script(documents: list[str], name: str) -> None:
    """Character for character, but for white space, which YAML folds, and quotation marks."""
    prompt = unescaped(ESCAPED[name](documents))
    plain = letters(prompt.text)
    for document in documents:
        assert letters(unescaped(document).text) in plain
    assert len(prompt.source_spans) == len(prompt.text)
    ends = [end for span in prompt.source_spans.tolist() for end in span]
    assert all(a <= b for a, b in pairwise(ends))
