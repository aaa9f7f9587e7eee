"""Metrics of a running service, as Prometheus reads them."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.patience import scaled
from support.service_process import REQUEST

pytestmark = pytest.mark.slow

Sample = tuple[str, frozenset[tuple[str, str]]]


def sample(name: str, **labels: str) -> Sample:
    return f"attribot_rag_{name}", frozenset(labels.items())


def scrape(client: httpx.Client) -> dict[Sample, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    return {
        (row.name, frozenset(row.labels.items())): row.value
        for family in text_string_to_metric_families(answer.text)
        for row in family.samples
    }


def test_answers_and_refusals_are_counted(two_clients: str) -> None:
    headers = {"Authorization": "Bearer small"}
    with httpx.Client(base_url=two_clients, headers=headers, timeout=scaled(60)) as client:
        before = scrape(client)
        answer = client.post("/attribute", json=REQUEST)
        assert answer.status_code == 200
        assert client.post("/attribute", json={}).status_code == 422
        assert client.post("/ask", json={}, headers={"Authorization": ""}).status_code == 401
        assert client.post("/attribute", content=b" " * 1_000_001).status_code == 413
        assert client.get("/health").status_code == 200
        assert client.get("/of-no-interest?x=1").status_code == 404
        after = scrape(client)
    grown = {key: after[key] - before.get(key, 0.0) for key in after}
    provenance = answer.json()["provenance"]
    tokens = provenance["prefilled_tokens"] + provenance["scored_tokens"]
    for key, value in {
        sample("requests_total", route="/attribute", status="200"): 1,
        sample("requests_total", route="/attribute", status="422"): 1,
        sample("requests_total", route="/attribute", status="413"): 1,
        sample("requests_total", route="/ask", status="401"): 1,
        sample("requests_total", route="/health", status="200"): 1,
        sample("requests_total", route="/metrics", status="200"): 1,
        sample("requests_total", route="other", status="404"): 1,
        sample("refusals_total", reason="invalid"): 1,
        sample("refusals_total", reason="large body"): 1,
        sample("refusals_total", reason="no token"): 1,
        sample("refusals_total", reason="unknown path"): 1,
        sample("attribution_seconds_count", route="/attribute"): 1,
        sample("scored_tokens_total"): tokens,
    }.items():
        assert grown[key] == value, key
    assert grown[sample("attribution_seconds_sum", route="/attribute")] > 0
    assert after[sample("queue_length")] == 0
    paths = {value for _, labels in after for key, value in labels if key == "route"}
    assert "/of-no-interest" not in paths


def test_the_metrics_need_the_token(two_clients: str) -> None:
    assert httpx.get(f"{two_clients}/metrics", timeout=scaled(60)).status_code == 401
