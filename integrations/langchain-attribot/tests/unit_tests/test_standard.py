"""LangChain's standard tests of retrievers, on one that the compressor takes duplicates out of."""

from typing import Any

import pytest
from chains import Given
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document

from langchain_attribot import DeduplicatingCompressor

standard = pytest.importorskip(
    "langchain_tests.integration_tests", reason="needs a newer LangChain"
)

HARBOURS = [
    Document(page_content=f"The harbour {name} was built in {1800 + number}.")
    for number, name in enumerate(("Alder", "Birch", "Cedar", "Dogwood", "Elm"))
]


class First(Given):
    """Gives its first `k` documents, and each of them twice."""

    k: int = 3

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        found = super()._get_relevant_documents(query, run_manager=run_manager)[: k or self.k]
        return [*found, *found]


def compressed(k: int = 3) -> ContextualCompressionRetriever:
    return ContextualCompressionRetriever(
        base_compressor=DeduplicatingCompressor(), base_retriever=First(documents=HARBOURS, k=k)
    )


class TestCompressor(standard.RetrieversIntegrationTests):  # type: ignore[misc, name-defined]
    @property
    def retriever_constructor(self) -> Any:
        return compressed

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {}

    @property
    def retriever_query_example(self) -> str:
        return "Which harbours are there?"
