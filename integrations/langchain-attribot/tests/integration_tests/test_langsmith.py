"""The recipe for LangSmith, with its own client and tracer and a collector on this machine."""

from typing import Any
from uuid import uuid4

import pytest
from conftest import QUESTION, Chain, Chat
from langchain_core.tracers.langchain import LangChainTracer
from langsmith import Client
from langsmith.utils import get_env_var
from support.collector import collecting
from support.pages import code_after
from support.patience import scaled

from attribot_rag.runtime import feedback_of
from langchain_attribot import AttributionCallbackHandler

SESSION = {
    "id": str(uuid4()),
    "name": "island",
    "tenant_id": str(uuid4()),
    "reference_dataset_id": None,
    "start_time": "2026-01-01T00:00:00+00:00",
}
BATCHES = {  # as LangSmith gives them, but in JSON
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_971_520,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 16,
    "scale_down_nempty_trigger": 4,
}
ANSWERS = {"/info": {"version": "0.13.0", "batch_ingest_config": BATCHES}, "/sessions": SESSION}


@pytest.mark.enable_socket
def test_the_feedback_is_on_the_model_s_run(
    tiny_chat: Chat, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    get_env_var.cache_clear()
    with collecting(ANSWERS) as collector:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", collector.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "none")
        monkeypatch.setenv("LANGSMITH_PROJECT", "island")
        exec(code_after("tracing.md", "## Trackers"), names)
        handler = AttributionCallbackHandler(
            tiny_chat, mode="background", method="leave_one_out", on_result=names["to_langsmith"]
        )
        tracer = LangChainTracer(project_name="island", client=Client())
        run_id = uuid4()
        chain.invoke(QUESTION, {"run_id": run_id, "callbacks": [handler, tracer]})
        run = handler.result(run_id, scaled(60))
        for client in (tracer.client, names["client"]):
            client.flush()
            client.cleanup()
        handler.close()
    traced = [run for sent in collector.sent_to("/runs/batch") for run in sent.json.get("post", ())]
    (model,) = [run for run in traced if run["run_type"] == "llm"]
    (sent,) = [request.json for request in collector.sent_to("/feedback")]
    assert sent["run_id"] == model["id"] == run.run_id
    assert sent["session_id"] == SESSION["id"]
    feedback = feedback_of(run)
    assert (sent["key"], sent["value"], sent["comment"]) == (
        "attribution",
        feedback.label,
        feedback.explanation,
    )
    assert sent.get("score") == feedback.score
