"""LangChain's standard tests of retrievers, on one that the compressor takes duplicates out of."""

from typing import Any

import pytest
from chains import Given
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document

from langchain_attribot import DeduplicatingCompressor

standard = pytest.importorskip(
    "langchain_tests.integration_tests", reason="needs a newer LangChain"
)


class First(Given):
    """Gives its first `k` documents, and each of them twice."""

    k: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int | None = None) -> Any:
        return [*self.documents[: k or self.k]] * 2


def compressed(k: int = 3) -> ContextualCompressionRetriever:
    documents = [
        Document(page_content=f"The harbour {name} was built in {1800 + number}.")
        for number, name in enumerate(("Alder", "Birch", "Cedar", "Dogwood", "Elm"))
    ]
    return ContextualCompressionRetriever(
        base_compressor=DeduplicatingCompressor(), base_retriever=First(documents=documents, k=k)
    )


class TestCompressor(standard.RetrieversIntegrationTests):  # type: ignore[misc, name-defined]
    retriever_constructor = staticmethod(compressed)
    retriever_query_example = "Which harbours are there?"
