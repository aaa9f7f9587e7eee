"""The recipes of docs/tracing.md, by the trackers' own clients and a collector on this machine.

`tasks/trackers` installs the clients beside the other packages; LangSmith's is tested with the
integration of LangChain.
"""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.collector import collecting
from support.pages import code_after
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import unshared

from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import Answer, AttributedRun, AttributionService, feedback_of

pytestmark = pytest.mark.filterwarnings("ignore")  # what the clients warn of is theirs


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return unshared()


@pytest.fixture
def names() -> dict[str, Any]:
    """The names that a recipe defines."""
    return {}


def attributed(model: LocalModel, names: dict[str, Any], recipe: str) -> AttributedRun:
    """The run of an answer that is generated here, after the recipe got it."""
    results: list[AttributedRun] = []

    def on_result(run: AttributedRun) -> None:
        names[recipe](run)  # what it raises is logged
        results.append(run)

    service = AttributionService(model, method="leave_one_out", on_result=on_result)
    try:
        say(model, [rendered(model)], [ANSWER])
        run = service.attribute("run", "root", Answer(ANSWER, DOCUMENTS, [QUESTION]))
    finally:
        service.close()
    assert results == [run]
    return run


def test_langfuse_gets_a_score_on_the_model_s_observation(
    model: LocalModel, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    langfuse = pytest.importorskip("langfuse", reason="tasks/trackers installs it")
    with collecting({}) as collector:
        monkeypatch.setenv("LANGFUSE_BASE_URL", collector.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "public")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", "secret")
        exec(code_after("tracing.md", "Langfuse uses"), names)
        client = langfuse.get_client()
        with client.start_as_current_observation(name="model", as_type="generation"):
            run = attributed(model, names, "to_langfuse")
        client.flush()
        client.shutdown()
    (observation,) = [
        span
        for sent in collector.sent_to("/api/public/otel/v1/traces")
        for resource in ExportTraceServiceRequest.FromString(sent.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if span.name == "model"
    ]
    (score,) = [row for sent in collector.sent_to("/api/public/scores") for row in sent.json]
    assert score["traceId"] == observation.trace_id.hex()
    assert score["observationId"] == observation.span_id.hex()
    feedback = feedback_of(run)
    assert (score["name"], score["value"], score["comment"]) == (
        "attribution",
        feedback.label,
        feedback.explanation,
    )
    assert score["metadata"]["run_id"] == "run"


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With a store of files, which is all that its small package has."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACE_PROPAGATE_TO_OTEL_CONTEXT", "true")
    mlflow = pytest.importorskip("mlflow", reason="tasks/trackers installs it")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    return mlflow


def test_mlflow_keeps_an_assessment_of_the_trace(
    model: LocalModel, names: dict[str, Any], mlflow: Any
) -> None:
    exec(code_after("tracing.md", "For MLflow,"), names)
    with mlflow.start_span("question"), mlflow.start_span("model") as span:
        run = attributed(model, names, "to_mlflow")
    mlflow.flush_trace_async_logging()
    (assessment,) = mlflow.get_trace(span.trace_id).info.assessments
    feedback = feedback_of(run)
    assert assessment.name == "attribution"
    assert assessment.value == (feedback.label if feedback.score is None else feedback.score)
    assert assessment.rationale == feedback.explanation
