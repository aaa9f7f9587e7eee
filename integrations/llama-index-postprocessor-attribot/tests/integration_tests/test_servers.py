"""A server that answers a model of LlamaIndex, and scores."""

from pathlib import Path

import pytest
from chatting import Chatting
from conftest import QUESTION
from engines import engine_of
from llama_index.core.prompts.chat_prompts import CHAT_TEXT_QA_PROMPT
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.model_server import model_server
from support.summaries import EXACT, attribution_of

from attribot_rag import Attributor, LocalModel


@pytest.mark.enable_socket
def test_a_server_answers_and_scores(tiny: LocalModel, tmp_path: Path) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        postprocessor = AttributionPostprocessor(language_model=served, **EXACT)
        response = engine_of(Chatting(url=server.url), postprocessor).query(QUESTION)
        attribution = attribution_of(postprocessor.result(response))
    assert attribution.provenance.retokenized
    texts = [node.node.get_content(MetadataMode.LLM) for node in response.source_nodes]
    messages = CHAT_TEXT_QA_PROMPT.format_messages(
        context_str="\n\n".join(texts), query_str=QUESTION
    )
    expected = Attributor(tiny, progress=False, **EXACT).attribute(
        [{"role": message.role.value, "content": message.content} for message in messages],
        attribution.response,
        [node.node.get_content(MetadataMode.NONE) for node in response.source_nodes],
    )
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
