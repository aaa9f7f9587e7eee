"""Units grouped by document, paragraph, passage, metadata or a function."""

import pytest
from support.tiny_models import byte_level

from attribot_rag.context import Context, ContextOptions, Document, TokenizedText, locate_context
from attribot_rag.context.context import Unit, group
from attribot_rag.errors import InvalidInput

DOCUMENTS = [
    Document("The treaty was signed.\n\nIt rained. Ships came.", metadata={"title": "Treaty"}),
    Document("The hall burned down.", metadata={"title": "Hall"}),
    Document("Ships came. Visitors stay.", metadata={"title": "Treaty"}),
    Document("No title at all."),
]


def context_of(*documents: Document | str) -> Context:
    language_model = byte_level()
    text = "\n----\n".join(Document.of(document).text for document in documents)
    prompt = TokenizedText.of(language_model.encode(f"Read.\n{text}\nWho?"), language_model)
    return locate_context(prompt, documents, ContextOptions())


CONTEXT = context_of(*DOCUMENTS)
EACH: list[Unit] = [(source_id,) for source_id in CONTEXT.present]


def texts(groups: list[list[int]], context: Context = CONTEXT) -> list[list[str]]:
    return [[context.sources[index].text for index in members] for members in groups]


def test_by_document_a_shared_source_goes_with_the_first_that_holds_it() -> None:
    assert texts(group(CONTEXT, EACH, "document")) == [
        ["The treaty was signed.", "It rained.", "Ships came."],
        ["The hall burned down."],
        ["Visitors stay."],
        ["No title at all."],
    ]
    assert texts(group(CONTEXT, EACH, "paragraph"))[:2] == [
        ["The treaty was signed."],
        ["It rained.", "Ships came."],
    ]
    assert group(CONTEXT, EACH, "passage") == group(CONTEXT, EACH, "document")


def test_by_metadata_where_documents_without_it_stay_alone() -> None:
    assert texts(group(CONTEXT, EACH, "metadata.title")) == [
        ["The treaty was signed.", "It rained.", "Ships came.", "Visitors stay."],
        ["The hall burned down."],
        ["No title at all."],
    ]
    assert group(CONTEXT, EACH, "metadata.page") == group(CONTEXT, EACH, "document")
    numbered = context_of(Document("One.", metadata={"n": 1}), "Two.", "Three.")
    assert group(numbered, [(0,), (1,), (2,)], "metadata.n") == [[0], [1], [2]]


@pytest.mark.parametrize("level", ["sentence", "metadata"])
def test_an_unknown_level_names_the_valid_ones(level: str) -> None:
    with pytest.raises(InvalidInput, match=r"document, paragraph, passage, metadata\.KEY"):
        group(CONTEXT, EACH, level)
