"""Duplicates are gone before the prompt is built."""

import pytest
from chains import Given
from conftest import DOCUMENTS
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document

from langchain_attribot import DeduplicatingCompressor


def test_equal_and_contained_documents_are_named_by_the_one_that_stays() -> None:
    twin = Document(page_content=DOCUMENTS[0].page_content, id="mirror", metadata={"page": 2})
    part = Document(page_content="A single ticket costs 18 crowns.", id="part")
    given = [DOCUMENTS[0], twin, DOCUMENTS[1], part]
    before = [document.model_copy(deep=True) for document in given]
    found = DeduplicatingCompressor().compress_documents(given, "?")
    assert [document.id for document in found] == ["ferry", "lighthouse"]
    assert found[0].metadata["merged"] == [
        {"id": "mirror", "metadata": {"page": 2}},
        {"id": "part", "metadata": {}},
    ]
    assert found[0].metadata["source"] == "ferry.md"
    assert found[1] == DOCUMENTS[1]
    assert given == before


def test_overlaps_are_cut_off() -> None:
    sentences = [f"Sentence number {i} tells of harbour {i}." for i in range(6)]
    chunks = [
        Document(page_content=" ".join(sentences[:4]), id="a"),
        Document(page_content=" ".join(sentences[2:]), id="b"),
    ]
    first, second = DeduplicatingCompressor().compress_documents(chunks, "?")
    assert first.page_content == chunks[0].page_content
    assert second.page_content == " ".join(sentences[4:])
    assert [document["id"] for document in first.metadata["merged"]] == ["b"]
    untouched = DeduplicatingCompressor(min_overlap=None).compress_documents(chunks, "?")
    assert untouched == chunks


def test_it_goes_into_a_compression_retriever() -> None:
    retriever = ContextualCompressionRetriever(
        base_compressor=DeduplicatingCompressor(),
        base_retriever=Given(documents=[*DOCUMENTS, *DOCUMENTS]),
    )
    assert [document.id for document in retriever.invoke("?")] == ["ferry", "lighthouse"]


def test_a_misspelt_option_is_told_the_right_one() -> None:
    with pytest.raises(ValueError, match=r"no option 'treshold'; did you mean 'threshold'\?"):
        DeduplicatingCompressor(treshold=0.5)  # type: ignore[call-arg]
