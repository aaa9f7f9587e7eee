"""Documents in the forms in which searches give them."""

from typing import Any

import pytest

from attribot_rag import Document
from attribot_rag.errors import InvalidInput
from attribot_rag.runtime import told_document


@pytest.mark.parametrize(
    ("value", "document"),
    [
        ("A text.", Document("A text.")),
        (Document("A text.", "a"), Document("A text.", "a")),
        (("A text.", 0.25), Document("A text.")),
        ({"text": "A text.", "id": 3}, Document("A text.", "3")),
        (
            {"snippet": "The longest text.", "id": "a", "score": 0.5, "lang": "en"},
            Document("The longest text.", "a", {"score": 0.5, "lang": "en"}),
        ),
        (
            {"page_content": "A text.", "type": "Document", "metadata": {"page": 2}},
            Document("A text.", metadata={"page": 2}),
        ),
    ],
)
def test_a_document_of_each_form(value: Any, document: Document) -> None:
    assert told_document(value) == document


@pytest.mark.parametrize("value", [{"score": 0.5}, object(), 3, None])
def test_a_value_without_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="document"):
        told_document(value)
