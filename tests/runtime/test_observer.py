"""Answers of an application that tells what it does by a few facts."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from cProfile import Profile

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, rendered, say
from support.tiny_models import unshared

from attribot_rag import Document
from attribot_rag.context.locating import LocatedDocuments
from attribot_rag.errors import DocumentsNotLocated, InvalidInput
from attribot_rag.runtime import AttributedRun, AttributionService, Call, Observer

MODEL = unshared()

_generating = threading.Lock()


@pytest.fixture(scope="module")
def service() -> Iterator[AttributionService]:
    service = AttributionService(MODEL, method="leave_one_out", verdicts=None, max_results=1024)
    yield service
    service.close()


@pytest.fixture
def observer(service: AttributionService) -> Observer:
    return Observer([service])


def asked(observer: Observer, parent: str | None, texts: Sequence[str], answer: str) -> Call:
    """A call within a step that has answered, of which the observer is still to be told."""
    prompt = rendered(MODEL, texts, "Say it.")
    call = observer.called(f"{parent}, asked", parent, prompt, [prompt], question="What?")
    with _generating:
        say(MODEL, [prompt], [answer])
    return call


def answered(
    observer: Observer, parent: str | None, texts: Sequence[str], answer: str
) -> AttributedRun | None:
    return observer.answered(asked(observer, parent, texts, answer), answer)


def searched(observer: Observer, parent: str, *documents: str) -> None:
    observer.began(f"{parent}, searched", parent)
    observer.retrieved(f"{parent}, searched", documents)


def texts_of(run: AttributedRun | None) -> list[str]:
    assert run is not None
    assert run.attribution is not None
    return [document.text for document in run.attribution.documents]


def test_an_answer_is_attributed_to_what_its_run_found(observer: Observer) -> None:
    observer.began("chain")
    searched(observer, "chain", *DOCUMENTS)
    run = answered(observer, "chain", DOCUMENTS, ANSWER)
    assert texts_of(run) == list(DOCUMENTS)
    assert run is not None
    assert run.question == "What?"
    assert observer.ended("chain", [ANSWER]) is run
    assert observer.store["chain"] is run
    assert len(observer.steps) == 0


def test_documents_are_looked_for_in_the_prompt_once(observer: Observer) -> None:
    observer.began("searched once")
    searched(observer, "searched once", *DOCUMENTS)
    call = asked(observer, "searched once", [text.upper() for text in DOCUMENTS], ANSWER)
    profile = Profile()
    run = profile.runcall(observer.answered, call, ANSWER)
    assert texts_of(run) == list(DOCUMENTS)
    counts = {entry.code: entry.callcount for entry in profile.getstats()}
    assert counts[LocatedDocuments.__init__.__code__] == 1
    observer.ended("searched once")


def test_what_was_made_of_an_answer_is_shown_as_it_was_given(observer: Observer) -> None:
    observer.began("shouts")
    searched(observer, "shouts", *DOCUMENTS)
    answered(observer, "shouts", DOCUMENTS, ANSWER)
    run = observer.ended("shouts", [f"**{ANSWER}**"])
    assert run is not None
    assert run.shown == f"**{ANSWER}**"


def test_documents_go_with_the_nearest_step_around_a_call(observer: Observer) -> None:
    observer.began("outer")
    for number, document in enumerate(DOCUMENTS[:2]):
        inner = f"inner {number}"
        observer.began(inner, "outer")
        searched(observer, inner, document)
        assert texts_of(answered(observer, inner, [document], ANSWER)) == [document]
        observer.ended(inner)
    observer.ended("outer")


def test_a_retriever_around_another_replaces_what_that_found(observer: Observer) -> None:
    observer.began("reranked")
    observer.began("outer search", "reranked")
    searched(observer, "outer search", *DOCUMENTS)
    observer.retrieved("outer search", DOCUMENTS[:1], replaces=True)
    assert texts_of(answered(observer, "reranked", DOCUMENTS[:1], ANSWER)) == [DOCUMENTS[0]]
    observer.ended("reranked")


def test_earlier_answers_are_known_by_the_prompt(observer: Observer) -> None:
    observer.began("map and reduce", given=DOCUMENTS[:2])
    parts = []
    for number, document in enumerate(DOCUMENTS[:2]):
        observer.began(f"part {number}", "map and reduce", given=[document])
        parts.append(answered(observer, f"part {number}", [document], f"Part {number}: {ANSWER}"))
        observer.ended(f"part {number}")
    answers = [part.text for part in parts if part is not None]
    run = answered(observer, "map and reduce", answers, ANSWER)
    assert texts_of(run) == answers
    assert run is not None
    assert list(run.earlier) == parts
    assert run.summary["status"] == "composite"
    observer.ended("map and reduce", [ANSWER])


def test_a_run_within_another_gives_its_own_answer(observer: Observer) -> None:
    observer.began("whole")
    found = []
    for number, document in enumerate(DOCUMENTS[:2]):
        name, answer = f"within {number}", f"Within {number}: {ANSWER}"
        observer.began(name, "whole")
        searched(observer, name, document)
        found.append(answered(observer, name, [document], answer))
        assert observer.ended(name, [answer]) is found[-1]
    assert observer.ended("whole", [f"Within 0: {ANSWER}"]) is found[0]
    assert [observer.store[f"within {number}"] for number in range(2)] == found


def test_what_a_script_searched_within_a_step_is_in_reach_of_later_calls(
    service: AttributionService,
) -> None:
    for loose in (True, False):
        observer = Observer([service], loose=loose)
        observer.began("search and format")
        searched(observer, "search and format", *DOCUMENTS)
        observer.ended("search and format", ["a text, no answer"])
        observer.began("prompt and model")
        run = answered(observer, "prompt and model", DOCUMENTS, ANSWER)
        assert (run is not None) == loose
        if loose:
            assert texts_of(run) == list(DOCUMENTS)


def test_what_is_told_twice_counts_once(
    observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        observer.began("twice", given=DOCUMENTS[:1])
    for _ in range(2):
        observer.began("search", "twice")
    observer.retrieved("search", DOCUMENTS)
    assert texts_of(answered(observer, "twice", DOCUMENTS, ANSWER)) == list(DOCUMENTS)
    (line,) = caplog.messages
    assert "attached twice" in line


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (DOCUMENTS[0], True),
        (Document(DOCUMENTS[0], "a", {"source": "a.md", "rank": 1}), True),
        (Document(DOCUMENTS[0], metadata={"source": "a.md"}), True),
        (Document(DOCUMENTS[0], "b"), False),
        (Document(DOCUMENTS[0], "a", {"source": "b.md"}), False),
    ],
)
def test_a_document_that_was_found_twice_is_one(
    observer: Observer, other: Document | str, *, is_same: bool
) -> None:
    first = Document(DOCUMENTS[0], "a", {"source": "a.md"})
    for documents in ([first, other], [other, first]):
        observer.began("whole")
        for place, document in enumerate(documents):
            observer.began(f"search {place}", "whole")
            observer.retrieved(f"search {place}", [document])
        run = answered(observer, "whole", DOCUMENTS[:1], ANSWER)
        assert run is not None and len(run.documents) == (1 if is_same else 2)
        assert "a" in [Document.of(document).id for document in run.documents]
        observer.ended("whole")


def test_a_run_with_the_id_of_one_that_never_ended_has_its_own_documents(
    observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    observer.began("again")
    searched(observer, "again", DOCUMENTS[0])
    observer.began("again")
    assert "'again' began again" in caplog.text
    searched(observer, "again", DOCUMENTS[1])
    assert texts_of(answered(observer, "again", DOCUMENTS, ANSWER)) == [DOCUMENTS[1]]
    observer.ended("again")


def test_documents_of_a_step_that_never_began_are_told_of(
    observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    observer.retrieved("nobody's search", DOCUMENTS)
    assert "nobody's search" in caplog.text


def test_a_text_in_place_of_texts_is_refused(observer: Observer) -> None:
    with pytest.raises(InvalidInput, match="a list of texts"):
        observer.called("call", None, "a prompt", "a prompt")


def test_no_documents_no_run(observer: Observer) -> None:
    observer.began("chat")
    assert answered(observer, "chat", [], ANSWER) is None
    assert observer.ended("chat", [ANSWER]) is None


def test_documents_that_are_not_in_the_prompt_are_an_error(observer: Observer) -> None:
    observer.began("formats", given=["Something else entirely, of which nothing is left."])
    run = answered(observer, "formats", DOCUMENTS, ANSWER)
    assert run is not None
    assert isinstance(run.error, DocumentsNotLocated)
    observer.ended("formats")


def test_calls_that_are_left_out_say_so_to_what_reads_them(service: AttributionService) -> None:
    observer = Observer([service], only="answer")
    observer.began("graph", names=frozenset({"graph"}), given=DOCUMENTS)
    call = asked(observer, "graph", DOCUMENTS, ANSWER)
    assert not call.wanted
    assert observer.answered(call, ANSWER) is None
    observer.began("answers", "graph", names=frozenset({"answer"}))
    run = answered(observer, "answers", [ANSWER], ANSWER)
    assert run is not None
    (earlier,) = run.earlier
    assert isinstance(earlier.error, InvalidInput)
    observer.ended("graph")


def test_a_script_s_searches_are_in_reach_of_prompts_that_hold_them(
    service: AttributionService,
) -> None:
    observer = Observer([service], loose=True)
    for number, document in enumerate(DOCUMENTS):
        observer.began(f"search {number}")
        observer.retrieved(f"search {number}", [document])
    assert texts_of(answered(observer, None, DOCUMENTS[1:], ANSWER)) == list(DOCUMENTS[1:])
    assert len(observer.steps) == 0


def test_roots_that_never_end_are_forgotten(observer: Observer) -> None:
    for number in range(3000):
        observer.began(f"root {number}")
        observer.began(f"within {number}", f"root {number}")
    assert len(observer.steps) == 2 * 1024


def test_two_hundred_at_once_are_not_mixed(observer: Observer) -> None:
    def run(number: int) -> bool:
        document, answer = f"The ship {number} is grey and old.", f"Ship {number} is grey."
        observer.began(f"run {number}")
        searched(observer, f"run {number}", document, f"The other of {number} is blue.")
        found = answered(observer, f"run {number}", [document], answer)
        return observer.ended(f"run {number}", [answer]) is found and document in texts_of(found)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(200)))
    assert len(observer.steps) == 0
