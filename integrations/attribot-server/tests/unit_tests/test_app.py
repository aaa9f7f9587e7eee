"""The service in this process: its answers and its refusals."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
import torch
from fastapi.testclient import TestClient
from support.examples import blocks_of
from support.model_server import model_server
from support.schemas import SCHEMA
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import Attribution, Document, LocalModel, ServedModel, ServerOptions
from attribot_rag.display import element_script
from attribot_rag.errors import InvalidInput
from attribot_server.app import Limits, create_app

DOCUMENTS = [
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    {"text": "The lighthouse is 38 metres high.", "id": "b", "metadata": {"page": 3}},
]
PROMPT = [
    {"role": "user", "content": f"{DOCUMENTS[0]}\n\nThe lighthouse is 38 metres high.\n\nHow high?"}
]
GIVEN = {"prompt": PROMPT, "response": "38 metres.", "documents": DOCUMENTS}
MOST_AWAITS = 60
EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture(scope="module")
def client(tiny: LocalModel) -> TestClient:
    chunks = [Document("The lighthouse is 38 metres high.", "lighthouse")]
    return TestClient(create_app(tiny, chunks=chunks, **EXACT))


def test_a_response_is_attributed(client: TestClient) -> None:
    answer = client.post("/attribute", json=GIVEN)
    assert answer.status_code == 200
    jsonschema.validate(answer.json(), SCHEMA)
    result = Attribution.from_dict(answer.json())
    assert result.response == "38 metres."
    assert len(result.sources) == 3
    assert "/" not in result.provenance.model
    assert result.documents[1] == Document(**DOCUMENTS[1])  # type: ignore[arg-type]
    assert client.get("/schema.json").json() == SCHEMA


def test_a_question_is_answered_from_documents_or_files(client: TestClient) -> None:
    question = {"question": "How high is the lighthouse?", "max_new_tokens": 5}
    for documents, name in ((DOCUMENTS, "b"), (None, "lighthouse")):
        answer = client.post("/ask", json={**question, "documents": documents, "html": True})
        assert answer.status_code == 200, answer.text
        result = Attribution.from_dict(answer.json()["attribution"])
        assert answer.json()["cited_text"] == result.to_cited_text()
        assert result.documents[-1].id == name
        assert answer.json()["answer"] == result.response
        assert answer.json()["html"] == result.to_html(question="How high is the lighthouse?")


def test_an_answer_is_sent_before_its_attribution(client: TestClient) -> None:
    question = {"question": "How high is the lighthouse?", "max_new_tokens": 5}
    answer = client.post("/ask", json={**question, "stream": True, "data": True})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *pieces, last = map(json.loads, answer.text.splitlines())
    said = "".join(piece.get("piece", "") for piece in pieces)
    assert said.strip() == last["answer"].strip() != ""
    judged = [piece["data"]["summary"]["sentences"] for piece in pieces if "data" in piece]
    assert judged[-1] == last["data"]["summary"]["sentences"]
    assert last["data"]["summary"]["sentences"]
    assert "html" in last and Attribution.from_dict(last["attribution"]).response == last["answer"]


def test_a_model_s_server_that_fails_is_named_with_what_to_do(tiny: LocalModel) -> None:
    once = ServerOptions(attempts=1)
    with model_server(tiny) as server:
        served = ServedModel.connect(server.url, tiny.tokenizer, options=once)
        client = TestClient(create_app(served, **EXACT))
        question = {"question": "How high?", "documents": DOCUMENTS, "stream": True}
        for path, body in (("/attribute", GIVEN), ("/ask", question)):
            server.failures.append((503, {}))
            answer = client.post(path, json=body)
            assert answer.status_code == 502
            detail = answer.json()["detail"]
            assert server.url in detail and "503" in detail
            assert "ask again" in detail
        assert client.post("/attribute", json=GIVEN).status_code == 200
    assert 'reason="model\'s server"} 2.0' in client.get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_without_files_a_question_needs_documents(tiny: LocalModel, stream: bool) -> None:
    """A streamed answer, too, has the status of what goes wrong before it."""
    question = {"question": "How high?", "stream": stream}
    answer = TestClient(create_app(tiny)).post("/ask", json=question)
    assert answer.status_code == 422
    assert "no files are served; send documents" in answer.json()["detail"]


class Crowded(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """A model on a device without room for anything beside the weights."""

    def forward(self, *_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("injected")


def test_a_context_that_does_not_fit_into_memory_is_refused(tiny: LocalModel) -> None:
    config = tiny.model.config
    assert isinstance(config, LlamaConfig)
    model = Crowded(config)
    model.train(False)
    client = TestClient(create_app(LocalModel(model, tiny.tokenizer), **EXACT))
    answer = client.post("/attribute", json=GIVEN)
    assert answer.status_code == 503
    assert "shorter context" in answer.json()["detail"]
    assert client.get("/health").json()["waiting"] == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prompt": "Nothing of them."}, "none of the documents (2) is in the prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"role": "king", "content": "Hear!"}]}, "role"),
        ({"response": "  "}, "response"),
        ({"documents": [" "]}, "documents"),
        ({"documents": [{"text": "One.", "extra": 1}]}, "extra"),
        ({"surprise": 1}, "surprise"),
        ({"prompt": "\ud800", "documents": ["\ud800"]}, "surrogate"),
        ({"documents": [{"text": "One.", "metadata": {"\ud800": 1}}]}, "surrogate"),
        ({"documents": [{"text": "One.", "id": "\udfff"}]}, "surrogate"),
        ({"answered_by": "\ud83d"}, "surrogate"),
        ({"prompt": [{"role": "user", "content": "a"}] * 1001}, "at most 1000"),
        ({"prompt": [{"role": "user", "tool_calls": ["\ud800"]}]}, "surrogate"),
    ],
)
def test_invalid_requests_are_refused(
    client: TestClient, changed: dict[str, Any], message: str
) -> None:
    body = json.dumps({**GIVEN, **changed})
    answer = client.post("/attribute", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert message in answer.text


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[1]", b"\xff\xfe", b"\xff{}", b'{"prompt": NaN}', b"[" * 100_000),
        *(b'{"prompt": %s}' % (b"9" * 5_000), b'{"prompt": "a"} {}', b'{"prompt": -Infinity}'),
    ],
)
@pytest.mark.parametrize("path", ["/attribute", "/ask"])
def test_malformed_bodies_are_refused(client: TestClient, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


def test_a_number_that_no_float_holds_is_refused(client: TestClient) -> None:
    body = json.dumps({**GIVEN, "documents": [{"text": "One.", "metadata": {"page": 12345}}]})
    for number in ("1e999", "-1e999", "NaN"):
        answer = client.post(
            "/attribute",
            content=body.replace("12345", number),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 422, answer.text
        assert number in answer.json()["detail"]


def test_numbers_in_metadata_come_back_as_they_were_sent(client: TestClient) -> None:
    metadata = {"big": 2**70, "small": -0.1, "tiny": 5e-324, "emoji": "🙂"}
    documents = [{"text": "The lighthouse is 38 metres high.", "metadata": metadata}]
    answer = client.post("/attribute", json={**GIVEN, "documents": documents})
    assert answer.status_code == 200, answer.text
    assert answer.json()["documents"][0]["metadata"] == metadata


MANY = 100_000


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": [{}] * MANY},
        {"prompt": [{"role": "user", "content": [1] * MANY}]},
        {"prompt": [{"role": "user", **{f"k{number}": 1 for number in range(MANY)}}]},
        {"documents": [1] * MANY},
        {f"k{number}": 1 for number in range(MANY)},
        {"k" * MANY: 1},
    ],
    ids=["messages", "parts", "fields of a message", "documents", "fields", "a long field"],
)
def test_what_is_wrong_with_a_large_body_is_told_in_short(
    tiny: LocalModel, changed: dict[str, Any]
) -> None:
    client = TestClient(create_app(tiny, limits=Limits(bytes=10_000_000)))
    answer = client.post("/attribute", json={**GIVEN, **changed})
    assert answer.status_code == 422
    assert len(answer.content) < 1_000


@pytest.mark.parametrize("body", [b"{", json.dumps(GIVEN).encode()])
def test_a_body_that_is_no_json_object_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/attribute", content=body)  # the last is good, but without its type
    assert answer.status_code == 422
    assert "Content-Type" in answer.json()["detail"]


def test_a_field_that_is_wrong_is_named_as_it_was_sent(client: TestClient) -> None:
    messages = [{"role": "king", "content": "Hear!"}]
    detail = client.post("/attribute", json={**GIVEN, "prompt": messages}).json()["detail"]
    assert "prompt.0.role: " in detail
    assert "constrained" not in detail
    assert "Message" not in detail
    for name in ("Prompt", "my-field"):
        assert client.post("/attribute", json={**GIVEN, name: 1}).json()["detail"].startswith(name)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic open sesame", 401),
        ("bearer open sesame", 200),
    ],
)
def test_a_token_is_needed_where_there_is_one(
    tiny: LocalModel, sent: str | None, status: int
) -> None:
    client = TestClient(create_app(tiny, token="open sesame", **EXACT))
    headers = {} if sent is None else {"Authorization": sent}
    answer = client.post("/attribute", json=GIVEN, headers=headers)
    assert answer.status_code == status
    assert client.get("/health").status_code == 200
    assert client.get("/").status_code == 200


def test_a_token_may_hold_any_character(tiny: LocalModel) -> None:
    client = TestClient(create_app(tiny, token="voilà", **EXACT))
    for sent, status in (("voilà", 422), ("voila", 401), ("voil", 401)):
        headers = {b"Authorization": f"Bearer {sent}".encode()}
        answer = client.post("/attribute", headers=headers)
        assert answer.status_code == status
        assert (answer.headers.get("WWW-Authenticate") == "Bearer") == (status == 401)


def test_time_runs_out_and_the_result_is_partial(tiny: LocalModel) -> None:
    app = create_app(tiny, limits=Limits(seconds=1e-6), **EXACT)
    answer = TestClient(app).post("/attribute", json=GIVEN)
    assert answer.status_code == 200
    assert answer.json()["incomplete"]


async def called(app: Any, path: str, body: bytes) -> int:
    """The status of the answer to a request whose client stays until it has it."""
    statuses: list[int] = []
    messages = [{"type": "http.request", "body": body}]
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))
        if not message.get("more_body", True):
            answered.set()

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"},
        **{"scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b""},
        **{"headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 80)},
    }
    await app(scope, receive, send)
    return statuses[0]


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [None, False, True])
async def test_a_request_may_be_cancelled_at_each_await(
    tiny: LocalModel, stream: bool | None
) -> None:
    """Its place is free again, and the next request is answered."""
    app = create_app(tiny, limits=Limits(waiting=1), **EXACT)
    given: dict[str, Any] = GIVEN
    if stream is not None:
        given = {"question": "How high?", "documents": DOCUMENTS, "max_new_tokens": 2}
        given["stream"] = stream
    request = ("/attribute" if stream is None else "/ask", json.dumps(given).encode())
    num_awaits = num_cancelled = 0
    while num_cancelled == num_awaits:
        task = asyncio.ensure_future(called(app, *request))
        for _ in range(num_awaits + 1):
            await asyncio.sleep(0)
        num_awaits += 1
        num_cancelled += task.cancel()
        with suppress(asyncio.CancelledError):
            assert await task == 200
        while len(app.state.queue):
            await asyncio.sleep(0.001)
        assert app.state.queue._num_received == {}
        if num_awaits > MOST_AWAITS:
            break
    assert num_cancelled > 5
    assert await called(app, *request) == 200


def test_nothing_may_run_or_be_framed(client: TestClient) -> None:
    for answer in (client.get("/health"), client.get("/"), client.post("/attribute", json={})):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_options_that_make_no_sense_are_refused(tiny: LocalModel) -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        create_app(tiny, limits=Limits(waiting=0))
    with pytest.raises(InvalidInput, match="the token is empty"):
        create_app(tiny, token=" ")


def test_an_answer_of_another_model_with_tools_is_read(client: TestClient) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    prompt = [
        {"role": "user", "content": [{"type": "text", "text": "How high is it?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": PROMPT[0]["content"]},
    ]
    given = {**GIVEN, "prompt": prompt, "answered_by": "gpt-4o"}
    answer = client.post("/attribute", json=given)
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json(), SCHEMA)
    result = Attribution.from_dict(answer.json())
    assert (result.provenance.basis, result.provenance.answered_by) == ("reader", "gpt-4o")
    assert not result.not_located


def test_every_site_gets_the_element_s_script(tiny: LocalModel) -> None:
    client = TestClient(create_app(tiny, token="secret"))
    answer = client.get("/attribot-answer.js", headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 200 and answer.text == element_script()
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"


def test_the_readme_s_code_makes_an_application(tiny: LocalModel) -> None:
    (code,) = blocks_of("integrations/attribot-server/README.md")
    names: dict[str, Any] = {"language_model": tiny}
    exec(code, names)
    assert TestClient(names["app"]).get("/health").status_code == 200
