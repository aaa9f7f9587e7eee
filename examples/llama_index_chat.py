"""A conversation: answers are streamed, and their citations follow when they are known.

python examples/llama_index_chat.py "How high is the lighthouse?" "Who designed it?"
"""

import sys

from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index_corpus import chat_model, index

from attribot_rag.display import visible

questions = sys.argv[1:] or ["How high is the lighthouse?", "Who designed the lighthouse?"]

llm = chat_model()

postprocessor = AttributionPostprocessor(mode="background")
chat = CondensePlusContextChatEngine.from_defaults(
    retriever=index().as_retriever(similarity_top_k=3),
    llm=llm,
    node_postprocessors=[postprocessor],
)
for question in questions:
    print(f"\n> {question}")
    response = chat.stream_chat(question)
    for piece in response.response_gen:
        print(visible(piece), end="", flush=True)
    run = postprocessor.result(response)  # waits; a chatbot would show it when it comes
    print("\n")
    print(run.attribution.to_table(top=2))
