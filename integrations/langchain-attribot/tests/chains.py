"""Chains as people write them, and retrievers over given documents."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

PROMPT = ChatPromptTemplate.from_template(
    "Answer from the context.\n\n{context}\n\nQuestion: {question}"
)


class Given(BaseRetriever):
    """Gives copies of its documents, whatever is asked."""

    documents: Sequence[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [document.model_copy(deep=True) for document in self.documents]


class ByName(BaseRetriever):
    """Gives a document that no other question gets, with the question's own name in it."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if "nothing" in query:
            return []
        if "broken" in query:
            raise ConnectionError(query)
        text = f"The harbour {query} was built in 1900. It has a tower."
        return [Document(page_content=text, id=f"document {query}")]


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def rag(retriever: Runnable[Any, Any], llm: Runnable[Any, Any]) -> Runnable[Any, Any]:
    return {"context": retriever | joined, "question": RunnablePassthrough()} | PROMPT | llm
