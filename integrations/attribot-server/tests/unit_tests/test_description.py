"""Requests of every kind that the service's own description allows, and some that it does not."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.patience import scaled

from attribot_rag import Document, LocalModel
from attribot_server.app import create_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def description(tiny: LocalModel) -> Any:
    chunks = [Document("The lighthouse is 38 metres high.", "lighthouse")]
    app = create_app(tiny, chunks=chunks, method="leave_one_out", verdicts=None)
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [
        ("/queue", "GET", GenerationMode.POSITIVE),
        ("/attribute", "POST", GenerationMode.POSITIVE),
        ("/ask", "POST", GenerationMode.POSITIVE),
        ("/attribute", "POST", GenerationMode.NEGATIVE),
        ("/ask", "POST", GenerationMode.NEGATIVE),
    ],
)
def test_every_request_is_answered_as_described(
    description: Any, path: str, method: str, mode: GenerationMode
) -> None:
    operation = description[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=scaled(120))

    check()
