"""A LangChain chain on a local model, and which sentences of its documents caused the answer.

python examples/langchain_rag.py "How high is the lighthouse?"
"""

import sys

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_corpus import chat_model, retriever

from langchain_attribot import AttributionCallbackHandler

question = " ".join(sys.argv[1:]) or "How high is the lighthouse?"

chat = chat_model()

prompt = ChatPromptTemplate.from_template(
    "{context}\n\nAnswer with one short sentence, using the passages above: {question}"
)
context = retriever() | (
    lambda documents: "\n\n".join(document.page_content for document in documents)
)
chain = {"context": context, "question": RunnablePassthrough()} | prompt | chat

handler = AttributionCallbackHandler(chat)  # these two lines are all it takes
message = chain.with_config(callbacks=[handler]).invoke(question)

print(handler.last.attribution.to_table(top=3))
summary = message.response_metadata["attribution"]
print("Attached to the message:", ", ".join(summary))
