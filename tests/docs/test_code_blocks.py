"""Python blocks of the documents run as they stand, or are named here with their own test."""

import ast
import json
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from langchain_openai import OpenAIEmbeddings
from openai import OpenAI
from support.attributions import ISLAND, verdicts_of
from support.chat_server import chat_server, prompt_of
from support.examples import blocks_of
from support.model_server import model_server
from support.scorers import ANSWER, TREATY, chat, scorer
from support.tiny_models import byte_level

from attribot_rag import Attributor, LocalModel, ScoringOptions
from attribot_rag.annotation import Annotation
from attribot_rag.errors import InvalidInput

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "README.md": "here, in tests/test_examples.py, and in that of each integration",
    "docs/batch.md": "attribot-batch's tests",
    "docs/counterfactual.md": "tests/test_examples.py",
    "docs/deploy.md": "integrations/langchain-attribot/tests/integration_tests/test_examples.py",
    "docs/distributed.md": "attribot-batch's tests, by `tasks/ray`",
    "docs/getting-started.md": "tests/test_examples.py",
    "docs/langchain-cases.md": "LangChain's integration tests",
    "docs/reference/summary.md": "the tests of both integrations",
    "docs/tracing.md": "tests/runtime/test_trackers.py, by `tasks/trackers`, and LangChain's",
    "integrations/attribot-checks/README.md": "its own tests",
    "integrations/attribot-server/README.md": "its own tests",
    "integrations/langchain-attribot/README.md": "its integration tests",
    "integrations/llama-index-postprocessor-attribot/README.md": "its integration tests",
}
HERE = {
    "CONTRIBUTING.md",
    "docs/answers.md",
    "docs/checks.md",
    "docs/hosted-chat.md",
    "docs/methods.md",
    "docs/readers.md",
    "docs/reference/integrating.md",
    "docs/served-models.md",
    "docs/tuning-verdicts.md",
}
# Other libraries, in environments of their own: tasks/peers.
OF_PEERS = {"docs/evaluation/peers.md"}
LOCAL = byte_level()


def run(page: str, replaced: dict[str, str], **names: Any) -> dict[str, Any]:
    """Run all blocks one after the other; returns the names that they leave."""
    for code in blocks_of(page):
        for text, other in replaced.items():
            code = code.replace(text, other)
        exec(code, names)
    return names


def test_every_page_with_code_is_listed() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("integrations/*/*.md")]
    with_code = {
        page.relative_to(ROOT).as_posix()
        for page in pages
        if "```python" in page.read_text("utf-8")
    }
    assert with_code == {*ELSEWHERE, *HERE, *OF_PEERS}


def test_a_block_that_is_an_example_equals_its_file() -> None:
    """Whatever it takes to run it: a cluster, for example."""
    shown = [
        (block, ROOT / "examples" / name)
        for page in ELSEWHERE
        for block, name in re.findall(
            r"^```python\n((?:(?!^```).)*?)^```\n\nThis is \[examples/(\w+\.py)\]",
            (ROOT / page).read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
    ]
    assert any(path.name == "ray_batch.py" for _, path in shown)
    for block, path in shown:
        assert block == path.read_text(encoding="utf-8"), path.name


OWN = (
    "attribot_rag",
    "attribot_batch",
    "attribot_checks",
    "attribot_server",
    "langchain_attribot",
    "llama_index.postprocessor.attribot",
)


def test_what_is_imported_from_here_exists() -> None:
    """Blocks and examples that another task runs are compared with the names in our modules."""
    examples = [file.read_text("utf-8") for file in sorted(ROOT.glob("examples/*.py"))]
    for page in (*ELSEWHERE, *HERE, *OF_PEERS, "examples"):
        for code in examples if page == "examples" else blocks_of(page):
            for node in nodes(code):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OWN):
                    names = {alias.name for alias in node.names}
                    assert names <= names_in(node.module or ""), page


def nodes(code: str) -> list[ast.AST]:
    """Of what is Python; a block may also show a value, with dots."""
    with suppress(SyntaxError):
        return list(ast.walk(ast.parse(code)))
    return []


def names_in(module: str) -> set[str]:
    """What a module defines or imports, read without running it: it may need an extra."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    names = {path.name for path in pkgutil.iter_modules(spec.submodule_search_locations or [])}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.alias):
            names.add(getattr(node, "asname", None) or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_methods_are_composed(tiny_model: str) -> None:
    names = run("docs/methods.md", {"path/or/hub-id": tiny_model})
    assert names["small"].model.config.vocab_size == LOCAL.model.config.vocab_size


def test_served_models_are_asked() -> None:
    with model_server(LOCAL, "vllm") as server:
        names = run(
            "docs/served-models.md",
            {
                "http://localhost:8000": server.url,
                '"path/or/hub-id"': "tokenizer",
                'model="name"': 'model="tiny"',
            },
            tokenizer=LOCAL.tokenizer,
            url=server.url,
            messages=chat(TREATY),
            answer=ANSWER,
            question="Who signed it?",
            documents=TREATY,
        )
    assert [document.text for document in names["attribution"].documents] == list(TREATY)


def test_the_model_that_answered_is_asked_without_a_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = chat(TREATY)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with chat_server("Nobody knows.") as (url, asked):
        names = run(
            "docs/readers.md",
            {},
            client=OpenAI(base_url=f"{url}/v1", api_key="none"),
            attributor=Attributor(LOCAL, method="leave_one_out", progress=False),
            messages=messages,
            answer=ANSWER,
            documents=TREATY,
        )
    assert names["reader"].name == f"word comparison and {OpenAIEmbeddings().model}"
    assert names["attribution"].provenance.basis == "reader"
    assert names["second"].response == "Nobody knows."
    (body,) = asked
    assert TREATY[1] in messages[-1]["content"] and TREATY[1] not in prompt_of(body)


FERRY = "The ferry Kittiwake carries up to 84 passengers."
LIGHTHOUSE = "The lighthouse is 38 metres high."


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What was asked of a hosted model that repeats its prompt's answer."""

    def answer(prompt: str) -> str:
        said = LIGHTHOUSE if "How high" in prompt else FERRY
        return said if said in prompt else "I do not know."

    with chat_server(answer) as (url, asked):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        yield asked


def test_the_readme_s_hosted_model_is_read(
    hosted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    exec(blocks_of("README.md")[3], {"documents": [FERRY, LIGHTHOUSE]})
    answer, _, told = capsys.readouterr().out.splitlines()
    assert answer == f"{FERRY} [1]"
    assert told == (
        "(word comparison read the answer of gpt-4o: citations show what supports it, "
        "not why gpt-4o gave it.)"
    )
    assert [asked["model"] for asked in hosted] == ["gpt-4o"]


@pytest.mark.embedded
@pytest.mark.slow
def test_a_hosted_model_is_read_from_start_to_finish(
    hosted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block prints what the page shows after it, or what it says there in words."""
    page = (ROOT / "docs/hosted-chat.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    printed = []
    for code in blocks_of("docs/hosted-chat.md"):
        exec(code, names)
        printed.append(capsys.readouterr().out)
    _, cited, used, without, by_model, streamed, _ = printed
    shown = [part.split("```")[0] for part in page.split("prints\n\n```\n")[1:]]
    assert [cited, used, without] == shown
    assert "`smollm2-135m-instruct read the answer of gpt-4o`" in page
    assert by_model.startswith(f"{LIGHTHOUSE} [1]\n")
    assert "(smollm2-135m-instruct read the answer of gpt-4o:" in by_model
    assert streamed == LIGHTHOUSE and "<attribot-answer" in names["html"]
    assert len(hosted) == 4
    assert names["sentence"]["standing"] == "full"
    again = names["answer"]("How high is it? Say it again.")
    assert LIGHTHOUSE in prompt_of(hosted[-1]) and again.attribution.verdicts[0].kind == "grounded"
    names["documents"].pop()
    names["history"].clear()
    missing = names["answer"]("How high is the lighthouse?").summary["sentences"][0]
    assert (missing["standing"], missing["documents"]) == ("none", [])
    names["documents"].clear()
    assert names["answer"]("How high is the lighthouse?") is None
    for name in ("handler", "reading", "background"):
        names[name].close()


def test_an_answer_is_shown_and_streamed() -> None:
    def follow(run_id: str) -> Iterator[SimpleNamespace]:
        if run_id == "unread":
            raise InvalidInput("the answer of the run unread has not ended")
        if run_id == "failed":
            yield SimpleNamespace(attribution=None, summary={"status": "error"}, text="It is high.")
        else:
            yield from [SimpleNamespace(attribution=ISLAND)] * 2

    background = SimpleNamespace(results=SimpleNamespace(follow=follow))
    names = run("docs/answers.md", {}, attribution=ISLAND, background=background)
    assert names["element"].startswith("<attribot-answer") and names["data"]["answer"]
    client = TestClient(names["app"], headers={"Origin": "https://your.site"})
    answer = client.get("/answers/7")
    assert answer.headers["access-control-allow-origin"] == "https://your.site"
    assert events_in(answer.text) == [json.loads(json.dumps(names["data"]))] * 2
    assert client.get("/attribot-answer.js").text == names["script"]
    (failed,) = events_in(client.get("/answers/failed").text)
    assert failed["answer"] == "It is high." and failed["summary"]["status"] == "error"
    (unread,) = events_in(client.get("/answers/unread").text)
    assert unread["summary"]["error"]["message"].endswith("has not ended")


def events_in(text: str) -> list[dict[str, Any]]:
    return [json.loads(event.removeprefix("data: ")) for event in text.strip().split("\n\n")]


def test_the_routes_serve_the_chat_with_history(hosted: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {"attribution": ISLAND}
    chain, words, *_ = blocks = blocks_of("docs/hosted-chat.md")
    (conversation,) = (code for code in blocks if "with_history" in code)
    for code in (chain, words, conversation, *blocks_of("docs/answers.md")):
        exec(code, names)
    client = TestClient(names["app"])

    def ask(question: str) -> tuple[str, dict[str, Any]]:
        address = f"/answers/{uuid4()}"
        told = client.post(address, params={"chat": "one", "question": question}).text
        return told, events_in(client.get(address).text)[-1]

    answer, data = ask("How high is the lighthouse?")
    assert answer == data["answer"] == LIGHTHOUSE
    assert data["summary"]["sentences"][0]["standing"] == "full"
    ask("How high is it? Say it again.")
    assert prompt_of(hosted[-1]).count(LIGHTHOUSE) == 2  # retrieved, and said in the first turn
    assert len(names["histories"]["one"]) == 4 and not names["histories"]["two"]
    names["documents"].clear()
    _, nothing = ask("How high is the lighthouse?")
    assert nothing["summary"]["status"] == "not_attributable"
    assert nothing["summary"]["error"]["message"] == "no documents were found"
    for name in ("handler", "background"):
        names[name].close()


def test_a_model_judges_the_sentences() -> None:
    """What the judge says is scripted; which sentences cite something is told by hand."""
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "Yes." if "signed" in prompt.partition("Claim:")[2] else "It names no winter.\n"

    response = "It was signed in the hall. The river froze."
    told = {"language_model": LOCAL, "messages": chat(TREATY), "response": response}
    names = run("docs/checks.md", {}, **told, documents=TREATY, answer=answer)
    context = scorer(documents=TREATY).context
    cited = {"kind": "grounded", "source_ids": (0,)}
    annotation = Annotation(names["Judge"](answer), response, context)
    first, second = annotation.of(verdicts_of(response, cited, cited))
    assert not annotation.notes and names["attribution"].response == response
    assert first.checks == ()
    (check,) = second.checks
    assert (check.value, check.message) == ("The river froze.", "It names no winter.")
    assert response[check.start : check.end] == check.value
    assert all(context.sources[0].text.strip() in prompt for prompt in asked)


def test_thresholds_are_set() -> None:
    names = run("docs/tuning-verdicts.md", {}, model=LOCAL.model, tokenizer=LOCAL.tokenizer)
    assert isinstance(names["attributor"], Attributor)


QUESTION = "How high is the lighthouse?"
ISLE = [
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
]


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.slow
def test_recipes_for_contributors_work_on_the_real_model(smollm2: LocalModel) -> None:
    names = run("CONTRIBUTING.md", {}, language_model=smollm2, question=QUESTION, documents=ISLE)
    attribution, plain = names["attribution"], names["plain"]
    assert attribution.provenance.method == "overlapping"
    assert attribution.top(1)[0].source.text == "The lighthouse is 38 metres high."
    assert sum(row is None for row in attribution.token_scores) == 1
    assert plain.provenance.implementation == "plain"
    reference = Attributor(
        smollm2, method="leave_one_out", scoring=ScoringOptions(implementation="reference")
    ).ask(QUESTION, ISLE)
    for ranked, other in zip(plain.top(4), reference.top(4), strict=True):
        assert ranked.score == pytest.approx(other.score, abs=1e-3)
    (verdict,) = names["counted"].verdicts
    assert verdict.kind == "grounded" and verdict.source_ids == (2,)
    assert names["counted"].provenance.implementation == "bigrams"


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.slow
def test_another_framework_is_integrated(smollm2: LocalModel) -> None:
    tokenizer = smollm2.tokenizer
    model: Any = smollm2.model

    def generate(messages: list[dict[str, str]]) -> str:
        encode: Any = tokenizer.apply_chat_template
        inputs = encode(messages, add_generation_prompt=True, return_tensors="pt")
        ids = model.generate(**inputs, max_new_tokens=30, do_sample=False)
        return str(tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :]))

    known = {"language_model": smollm2, "question": QUESTION, "documents": ISLE}
    names = run("docs/reference/integrating.md", {}, generate=generate, **known)
    assert names["run"].summary["status"] == "complete"
    assert names["run"].summary["question"] == QUESTION
    assert names["run"].attribution.provenance.retokenized is False
