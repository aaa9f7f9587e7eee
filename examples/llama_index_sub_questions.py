"""A LlamaIndex engine that asks sub-questions, and where the parts of its answer come from.

python examples/llama_index_sub_questions.py

The final answer is attributed to the sub-answers, these to the chunks that were retrieved for them.
"""

from llama_index.core import get_response_synthesizer
from llama_index.core.query_engine import SubQuestionQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.tools import QueryEngineTool
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index_corpus import chat_model, index

from attribot_rag.display import visible

QUESTION = "How high is the lighthouse, and how many passengers does the ferry carry?"


class Asks(BaseQuestionGenerator):
    """Two questions; the embedded model is too small to find any, LLMQuestionGenerator asks one."""

    def generate(self, tools, query):
        questions = ("How high is the lighthouse?", "How many passengers does the ferry carry?")
        return [SubQuestion(sub_question=question, tool_name="island") for question in questions]

    async def agenerate(self, tools, query):
        return self.generate(tools, query)

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass


llm = chat_model()

postprocessor = AttributionPostprocessor()
engine = index().as_query_engine(llm=llm, similarity_top_k=2, node_postprocessors=[postprocessor])
tool = QueryEngineTool.from_defaults(engine, name="island", description="knows the island")
composite = SubQuestionQueryEngine(
    Asks(), get_response_synthesizer(llm=llm), [tool], verbose=False, use_async=False
)

response = composite.query(QUESTION)
print(visible(str(postprocessor.cited_response(response))))
summary = response.metadata["attribution"]
for document in summary["documents"]:
    if document["number"]:
        print(visible(f"[{document['number']}] {document['title']} ({document['id']})"))
for call in summary["calls"]:
    print(visible(f"\n{call['question']}\n{call['answer']}"))
    for source in call["sources"][:1]:
        print(visible(f"  {source['score']:.2f} nats: {source['text']}"))
