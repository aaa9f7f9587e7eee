"""Requests to a server: repeated, limited, cancelled, and with a key that nobody sees."""

import copy
import logging
import signal
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from support.model_server import ModelServer, model_server
from support.patience import scaled, wait_until
from support.scorers import ANSWER, TREATY, chat
from support.threads import at_once
from support.tiny_models import byt5, byte_level, metaspace

from attribot_rag import Attribution, Attributor, Budget, ServerOptions
from attribot_rag.errors import (
    ContextTooLong,
    InvalidInput,
    ServerFailed,
    TokenizerMismatch,
    UnsupportedServer,
)
from attribot_rag.model.served_model import ServedModel
from attribot_rag.model.server import KEY

LOCAL = byte_level()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(LOCAL) as running:
        yield running


def connect(server: ModelServer, **options: int) -> ServedModel:
    return ServedModel.connect(
        server.url,
        LOCAL.tokenizer,
        options=ServerOptions(**options),  # type: ignore[arg-type]
    )


def attributor_of(server: ModelServer, budget: Budget | None = None, **options: int) -> Attributor:
    return Attributor(
        connect(server, **options), method="leave_one_out", budget=budget, progress=False
    )


def attributed(attributor: Attributor, answer: str = ANSWER) -> Attribution:
    return attributor.attribute(chat(TREATY), answer, TREATY)


IDS = [list(LOCAL.encode(text)) for text in TREATY]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: ModelServer, status: int) -> None:
    served = connect(server)
    expected = served.weights.score(IDS, [5] * len(IDS))
    before = len(server.bodies)
    server.failures.extend([(status, {})] * 2)
    assert served.weights.score(IDS, [5] * len(IDS)) == expected
    assert len(server.bodies) == before + len(IDS) + 2  # twice again


def test_a_request_that_times_out_is_repeated(server: ModelServer) -> None:
    served = connect(server, attempts=20, timeout=1)
    expected = served.weights.score(IDS[:1], [5])
    server.open.clear()

    def open_late() -> None:
        wait_until(lambda: server.num_hung_up > 0)
        server.open.set()

    thread = threading.Thread(target=open_late)
    thread.start()
    assert served.weights.score(IDS[:1], [5]) == expected
    thread.join()


def test_a_server_that_stays_busy_or_refuses_is_given_up(server: ModelServer) -> None:
    """Refused requests raise at once; the other rows are cancelled."""
    served = connect(server, attempts=2)
    server.failures.extend([(503, {})] * 2)
    with pytest.raises(ServerFailed, match=r"answered 503.*attempt 2"):
        served.weights.score(IDS[:1], [5])
    before = len(server.bodies)
    server.failures.append((400, {}))
    with pytest.raises(ServerFailed, match="answered 400"):
        served.weights.score(IDS[:1], [5])
    assert len(server.bodies) == before + 1
    server.open.clear()
    server.failures.append((400, {}))
    with pytest.raises(ServerFailed, match="400"):
        served.weights.score(IDS, [5] * len(IDS))
    wait_until(lambda: not server.under_way)
    for option in ("concurrency", "timeout", "attempts"):
        with pytest.raises(InvalidInput, match=option):
            connect(server, **{option: 0})


def test_no_more_than_the_allowed_requests_are_under_way(server: ModelServer) -> None:
    served = connect(server, concurrency=2)
    server.most_at_once = 0
    server.open.clear()

    def open_when_two_are_under_way() -> None:
        wait_until(lambda: server.under_way == 2)
        server.open.set()

    at_once(*[partial(served.weights.score, IDS, [5] * len(IDS))] * 2, open_when_two_are_under_way)
    assert server.most_at_once == 2


def test_a_budget_ends_the_wait_for_a_server(server: ModelServer) -> None:
    attributed(attributor_of(server))  # makes imports, which take longer
    attributor = attributor_of(server, Budget(seconds=scaled(0.3)))
    server.open.clear()
    attribution = attributed(attributor)
    assert attribution.incomplete
    assert set(attribution.token_scores) == {None}
    wait_until(lambda: server.num_hung_up > 0 and not server.under_way)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Shells have their background jobs ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_requests_under_way(server: ModelServer) -> None:
    attributor = attributor_of(server)
    server.open.clear()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        wait_until(lambda: server.under_way > 1)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        attributed(attributor)
    thread.join()
    wait_until(lambda: server.num_hung_up > 1 and not server.under_way)


def test_answers_of_several_threads_are_not_mixed_up(server: ModelServer) -> None:
    attributor = attributor_of(server)
    answers = (ANSWER, "Visitors can see the seals.", "The river was closed.")
    expected = [attributed(attributor, answer).token_scores for answer in answers]
    replies: dict[str, object] = {}

    def attribute(answer: str) -> None:
        replies[answer] = attributed(attributor, answer).token_scores

    at_once(*(partial(attribute, answer) for answer in answers))
    assert [replies[answer] for answer in answers] == expected


def test_the_key_goes_to_the_server_and_nowhere_else(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = "sesame-1"
    monkeypatch.setenv(KEY, "sesame-1")
    attributor = attributor_of(server)
    attribution = attributed(attributor)
    assert set(server.keys) == {"Bearer sesame-1"}
    monkeypatch.setenv(KEY, "sesame-2")
    with pytest.raises(ServerFailed, match=KEY) as error:
        connect(server)
    shown = [caplog.text, attribution.to_json(), repr(attributor.language_model), str(error.value)]
    assert not any("sesame" in text for text in shown)


def test_urls() -> None:
    with model_server(LOCAL) as server:
        served = ServedModel.connect(f"{server.url}/v1/", LOCAL.tokenizer)
        assert served.weights.client.url == server.url
    with pytest.raises(ServerFailed, match="did not answer"):
        ServedModel.connect(server.url, LOCAL.tokenizer)
    with pytest.raises(InvalidInput, match="no user or password"):
        ServedModel.connect("http://me:secret@localhost", LOCAL.tokenizer)
    for url in ("localhost:8000", "ftp://localhost", ""):
        with pytest.raises(InvalidInput, match="is not the URL of a server"):
            ServedModel.connect(url, LOCAL.tokenizer)


def test_a_server_without_log_probabilities_is_refused_with_those_that_have_them(
    server: ModelServer,
) -> None:
    with (
        model_server(LOCAL, "other") as other,
        pytest.raises(UnsupportedServer, match=r"vLLM .* and SGLang .* llama.cpp"),
    ):
        connect(other)
    server.failures.append((422, {}))
    with pytest.raises(UnsupportedServer, match=r"answered 422.*vLLM .* and SGLang"):
        connect(server)
    server.jitter = 100.0
    with pytest.raises(UnsupportedServer, match="gives logits"):
        connect(server)


def test_the_servers_model_and_tokenizer_are_checked(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidInput, match=r"model='other'; the server .* serves 'tiny'"):
        ServedModel.connect(server.url, LOCAL.tokenizer, model="other")
    for other in (metaspace(), byt5()):
        with pytest.raises(TokenizerMismatch, match="different ids"):
            ServedModel.connect(server.url, other.tokenizer)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        ServedModel.connect(server.url, "/no/such/folder")
    assert "renders chat messages differently" not in caplog.text
    other_template = copy.deepcopy(LOCAL.tokenizer)
    other_template.chat_template = "{{ messages[0]['content'] }}"
    ServedModel.connect(server.url, other_template)
    assert "renders chat messages differently" in caplog.text


def test_an_answer_that_is_too_long_is_not_sent() -> None:
    with model_server(LOCAL, max_length=140) as server:
        attributor = attributor_of(server)
        before = len(server.bodies)
        with pytest.raises(ContextTooLong, match="138"):
            attributed(attributor)
        assert len(server.bodies) == before


def test_noise_is_measured_and_noted(server: ModelServer) -> None:
    server.jitter = 0.25
    attribution = attributed(attributor_of(server))
    noise = attribution.provenance.noise
    assert noise is not None and noise > 0.2
    assert noise == pytest.approx(0.25 * round(noise / 0.25))
    assert any("no more exact than that" in note for note in attribution.notes)
