"""A document's title and address, by the metadata of several loaders."""

from typing import Any

import pytest

from attribot_rag import Document

PAGE = "https://example.org/ferry"


def document(**metadata: Any) -> Document:
    return Document("The ferry is red.", "a", metadata)


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({"title": "Ferries"}, "Ferries"),
        ({"source": "ferry.txt"}, "ferry.txt"),
        ({"file_path": "/data/ferry.txt"}, "/data/ferry.txt"),
        ({"file_path": "/data/ferry.txt", "file_name": "ferry.txt"}, "ferry.txt"),
        ({"title": " \n", "source": "ferry.txt"}, "ferry.txt"),
        ({"title": None, "source": 3, "file": ["x"]}, ""),
        ({"page": 3, "Title": "Ferries"}, ""),
    ],
)
def test_a_title_is_the_first_of_the_known_fields_with_a_text(
    metadata: dict[str, Any], title: str
) -> None:
    assert document(**metadata).title == title


@pytest.mark.parametrize(
    ("metadata", "url"),
    [
        ({"url": PAGE}, PAGE),
        ({"source": "https://example.org/other", "link": "https://example.org", "url": PAGE}, PAGE),
        ({"url": "/ferry", "link": "see below", "source": PAGE}, PAGE),
        ({"url": None, "link": 3, "source": PAGE}, PAGE),
        ({"source": "ferry.txt"}, ""),
        ({"source": "/data/https://example.org"}, ""),
        ({"url": "javascript:alert(1)"}, ""),
        ({"url": "file:///etc/passwd"}, ""),
    ],
)
def test_a_url_is_the_first_that_a_browser_opens(metadata: dict[str, Any], url: str) -> None:
    assert document(**metadata).url == url
