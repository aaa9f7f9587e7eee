"""The labels of documents in every rendering."""

from typing import Any

import pytest

from attribot_rag import Document
from attribot_rag.display import label_of

UUID = "6b1f3a0e-0d3b-4d0a-9f43-2a4c1c1d9d11"


@pytest.mark.parametrize(
    ("identifier", "metadata", "label"),
    [
        (None, {}, "document 3"),
        ("d7", {}, "d7"),
        (None, {"source": "tides.pdf"}, "tides.pdf"),
        ("d7", {"source": "tides.pdf"}, "tides.pdf (d7)"),
        (UUID, {}, UUID),
        (None, {"source": "tides.pdf", "page_label": 4, "page": 3}, "tides.pdf, p. 4"),
        ("d7", {"source": "tides.pdf", "page_label": "4"}, "tides.pdf, p. 4 (d7)"),
        ("tides.pdf 7", {"source": "tides.pdf", "page_label": "4"}, "tides.pdf 7, p. 4"),
    ],
)
def test_a_document_is_called_by_its_title_page_and_id(
    identifier: str | None, metadata: dict[str, Any], label: str
) -> None:
    assert label_of(Document("Text.", id=identifier, metadata=metadata), 2) == label
