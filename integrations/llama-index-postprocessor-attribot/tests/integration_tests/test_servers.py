"""A server that answers LlamaIndex's OpenAILike, and scores."""

from pathlib import Path

import pytest
from conftest import EXACT, QUESTION, index_of
from llama_index.core.prompts.chat_prompts import CHAT_TEXT_QA_PROMPT
from llama_index.core.schema import MetadataMode
from llama_index.llms.openai_like import OpenAILike
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.model_server import NAME, model_server

from attribot_rag import Attributor, LanguageModel


@pytest.mark.enable_socket
def test_a_server_answers_and_scores(tiny: LanguageModel, tmp_path: Path) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        llm = OpenAILike(
            model=NAME,
            api_base=f"{server.url}/v1",
            api_key="none",
            is_chat_model=True,
            max_tokens=8,
        )
        postprocessor = AttributionPostprocessor(language_model=served, **EXACT)
        engine = index_of().as_query_engine(llm=llm, node_postprocessors=[postprocessor])
        response = engine.query(QUESTION)
        found = postprocessor.result(response).attribution
    assert found is not None and found.provenance.retokenized
    texts = [one.node.get_content(MetadataMode.LLM) for one in response.source_nodes]
    asked = CHAT_TEXT_QA_PROMPT.format_messages(context_str="\n\n".join(texts), query_str=QUESTION)
    expected = Attributor(tiny, progress=False, **EXACT).attribute(
        [{"role": one.role.value, "content": one.content} for one in asked],
        found.response,
        [one.node.get_content(MetadataMode.NONE) for one in response.source_nodes],
    )
    for row, right in zip(found.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
