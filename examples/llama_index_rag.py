"""A LlamaIndex query engine on a local model, and which sentences caused its answer.

python examples/llama_index_rag.py "How high is the lighthouse?"
"""

import sys

from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index_corpus import chat_model, index

question = " ".join(sys.argv[1:]) or "How high is the lighthouse?"

llm = chat_model()

postprocessor = AttributionPostprocessor()  # this line, and its place among the postprocessors
engine = index().as_query_engine(llm=llm, similarity_top_k=4, node_postprocessors=[postprocessor])
response = engine.query(question)

print(postprocessor.result(response).attribution.to_table(top=3))
print("Attached to the response:", ", ".join(response.metadata["attribution"]))
