"""Duplicates are gone before the prompt is built."""

from conftest import DOCUMENTS
from langchain_core.documents import Document

from langchain_attribot import DeduplicatingCompressor


def test_a_document_names_its_equal_contained_and_overlapping_duplicates() -> None:
    ticket = "A single ticket costs 18 crowns."
    twin = Document(page_content=DOCUMENTS[0].page_content, id="mirror", metadata={"page": 2})
    part = Document(page_content=ticket, id="part")
    following = Document(page_content=f"{ticket} Bicycles travel for free.", id="following")
    documents = [DOCUMENTS[0], twin, DOCUMENTS[1], part, following]
    before = [document.model_copy(deep=True) for document in documents]
    ferry, lighthouse, rest = DeduplicatingCompressor().compress_documents(documents, "?")
    assert (ferry.id, ferry.metadata["source"]) == ("ferry", "ferry.md")
    assert ferry.metadata["attribot_merged"] == [
        {"id": "mirror", "metadata": {"page": 2}},
        {"id": "part", "metadata": {}},
        {"id": "following", "metadata": {}},
    ]
    assert lighthouse == DOCUMENTS[1]
    assert (rest.id, rest.page_content) == ("following", "Bicycles travel for free.")
    assert documents == before
    *_, untouched = DeduplicatingCompressor(min_overlap=None).compress_documents(documents, "?")
    assert untouched == following
