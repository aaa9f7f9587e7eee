"""A LangChain agent that searches before it answers, and what caused each of its answers.

    python examples/langchain_agent.py

Two turns of one conversation: the second answer may rest on what either of them retrieved.
"""

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import create_retriever_tool
from langchain_corpus import chat_model, retriever
from langchain_huggingface import ChatHuggingFace
from langgraph.checkpoint.memory import InMemorySaver

from langchain_attribot import AttributionMiddleware


class SearchesFirst(BaseChatModel):
    """Searches for every question, then lets `llm` answer from what was found.

    The embedded model is too small to decide on tools, and ChatHuggingFace takes no tool messages
    on a local pipeline. A larger model on a server of its own kind needs nothing like it.
    """

    llm: ChatHuggingFace

    @property
    def _llm_type(self):
        return "searches-first"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        if isinstance(messages[-1], HumanMessage):
            call = {"name": "search", "args": {"query": messages[-1].content}, "id": "search"}
            answer = AIMessage("", tool_calls=[call])
        else:
            passages = [message.content for message in messages if message.type == "tool"]
            *earlier, question = [
                message.content
                for message in messages
                if message.type != "tool" and message.content
            ]
            prompt = "\n\n".join(
                [
                    *passages,
                    *earlier,
                    f"Answer with one short sentence, using the passages: {question}",
                ]
            )
            answer = self.llm.invoke([HumanMessage(prompt)], config={"callbacks": []})
        return ChatResult(generations=[ChatGeneration(message=answer)])


chat = chat_model()
search = create_retriever_tool(
    retriever(), "search", "Searches the island's files.", response_format="content_and_artifact"
)
middleware = AttributionMiddleware(chat)
agent = create_agent(
    SearchesFirst(llm=chat), [search], middleware=[middleware], checkpointer=InMemorySaver()
)

for question in ("How high is the lighthouse?", "Who designed it?"):
    state = {"messages": [HumanMessage(question)]}
    config = {"configurable": {"thread_id": "one"}}
    message = agent.invoke(state, config)["messages"][-1]
    run = middleware.results[message.response_metadata["attribution"]["run_id"]]
    print(f"> {question}")
    print(run.attribution.to_table(top=3))
