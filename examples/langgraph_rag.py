"""A LangGraph graph that retrieves, grades what it found and answers, and what caused the answer.

python examples/langgraph_rag.py "How high is the lighthouse?"
"""

import sys
from typing import Annotated, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langchain_corpus import chat_model, retriever
from langgraph.graph import END, START, StateGraph, add_messages

from langchain_attribot import AttributionCallbackHandler

question = " ".join(sys.argv[1:]) or "How high is the lighthouse?"


class State(TypedDict):
    question: str
    documents: list[Document]
    messages: Annotated[list[AnyMessage], add_messages]


# Two models; the embedded one twice, since it is here. Another one may grade, or answer.
grading = chat_model(max_new_tokens=1)
answering = chat_model()
passages = retriever()


def retrieve(state):
    return {"documents": passages.invoke(state["question"])}


def grade(state):
    """Keep what the model calls relevant, and everything where it calls nothing so."""
    instruction = "{}\n\nQuestion: {}\nDoes the text above help to answer it? Say yes or no."
    kept = [
        document
        for document in state["documents"]
        if "yes"
        in grading.invoke(
            instruction.format(document.page_content, state["question"])
        ).content.lower()
    ]
    return {"documents": kept or state["documents"]}


def answer(state):
    context = "\n\n".join(document.page_content for document in state["documents"])
    instruction = "Answer with one short sentence, using the passages above:"
    return {"messages": [answering.invoke(f"{context}\n\n{instruction} {state['question']}")]}


graph = StateGraph(State)
graph.add_sequence([retrieve, grade, answer])
graph.add_edge(START, "retrieve")
graph.add_edge("answer", END)

# The answer of the node `answer` is attributed, on the model that gave it; the grades are not.
handler = AttributionCallbackHandler([answering, grading], only="answer")
app = graph.compile().with_config(callbacks=[handler])
message = app.invoke({"question": question})["messages"][-1]

print(handler.last.attribution.to_table(top=3))
summary = message.response_metadata["attribution"]
print(f"{len(handler.results)} of the calls was attributed, in {summary['seconds']:.1f} seconds.")
