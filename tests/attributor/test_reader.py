"""A model that reads the answers of another one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.tiny_models import byte_level, metaspace

from attribot_rag import Attribution, Attributor, LanguageModel, VerdictOptions, WordsReader
from attribot_rag.attributor.prompts import prompt_without
from attribot_rag.errors import InvalidInput, NotRecorded

MILL = "The mill at Orrin grinds 40 sacks of rye a day. Its wheel was made in 1911."
INN = "The inn at Orrin has nine rooms. Breakfast is at seven."
QUESTION = "How many rooms has the inn?"
ANSWER = "The inn has nine rooms. It is open all year."
PROMPT = [
    {"role": "system", "content": "Answer from the passages."},
    {"role": "user", "content": f"{MILL}\n\n{INN}\n\n{QUESTION}"},
]
EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None, "progress": False}


def reader_of(**options: Any) -> Attributor:
    return Attributor(byte_level(), **{**EXACT, **options})


def test_another_models_answer_is_read_and_its_own_is_not() -> None:
    attributor = reader_of()
    read = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="gpt-4o")
    own = attributor.attribute(PROMPT, ANSWER, [MILL, INN])
    assert read.token_scores == own.token_scores
    assert (read.provenance.basis, read.provenance.answered_by) == ("reader", "gpt-4o")
    assert (own.provenance.basis, own.provenance.answered_by) == ("cause", None)
    unnamed = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="")
    assert (unnamed.provenance.basis, unnamed.provenance.answered_by) == ("reader", None)
    always = reader_of(is_reader=True).attribute(PROMPT, ANSWER, [MILL, INN])
    assert always.provenance.basis == "reader"


def test_what_a_model_was_recorded_to_answer_is_no_reading() -> None:
    attributor = reader_of(is_reader=True)
    assert attributor.ask(QUESTION, [INN], max_new_tokens=4).provenance.basis == "cause"


def test_notes_on_a_generation_are_not_for_a_reader() -> None:
    attributor = reader_of()
    own = attributor.attribute(PROMPT, ANSWER, [MILL, INN])
    read = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="gpt-4o")
    assert any("tokenized again" in note for note in own.notes)
    assert any("very unlikely for this model" in note for note in own.notes)
    assert read.notes == ()


def test_a_reader_cites_for_less_than_what_a_cause_takes(smollm2: LanguageModel) -> None:
    attributor = Attributor(smollm2, progress=False)
    prompt = [{"role": "user", "content": f"{MILL}\n\n{INN}\n\nWhen is breakfast?"}]
    given: Any = prompt, "The answer is seven.", [MILL, INN]  # words alone do not find it
    own, read = attributor.attribute(*given), attributor.attribute(*given, answered_by="gpt-4o")
    assert own.verdicts[0].kind == "unsupported" and read.verdicts[0].kind == "grounded"
    (cited,) = read.verdicts[0].source_ids
    assert read.sources[cited].text.strip() == "Breakfast is at seven."
    strict = VerdictOptions(min_effect=4.0, min_reliance=6.0)
    other = Attributor(smollm2, progress=False, verdicts=strict)
    assert other.attribute(*given, answered_by="gpt-4o").verdicts[0].kind != "grounded"


def test_what_words_find_needs_no_rows(
    smollm2: LanguageModel,
) -> None:
    attributor = Attributor(smollm2, progress=False)
    prompt = [{"role": "user", "content": f"{MILL}\n\n{INN}\n\n{QUESTION}"}]
    given: Any = prompt, "The inn has nine rooms.", [MILL, INN]
    own, read = attributor.attribute(*given), attributor.attribute(*given, answered_by="gpt-4o")
    assert own.verdicts[0].effect is not None
    (verdict,) = read.verdicts
    assert (verdict.kind, verdict.effect, verdict.source_ids) == ("grounded", None, (2,))
    assert verdict.reliance == own.verdicts[0].reliance
    assert read.provenance.scored_tokens < own.provenance.scored_tokens
    words = WordsReader().attribute(*given, answered_by="gpt-4o")
    assert verdict.source_ids == words.verdicts[0].source_ids


def test_a_marker_of_a_document_that_says_it_less_well_is_right(smollm2: LanguageModel) -> None:
    better = f"{QUESTION} The inn at Orrin has nine rooms, says the guide."
    documents = [MILL, INN, better]
    passages = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(documents, 1))
    prompt = [{"role": "user", "content": f"{passages}\n\n{QUESTION}"}]
    answer = "The inn has nine rooms [2][3]. The wheel is red [1]."
    attributor = Attributor(smollm2, progress=False)
    read = attributor.attribute(prompt, answer, documents, answered_by="gpt-4o")
    assert [marker.supported for marker in read.markers[:2]] == [True, True]


@pytest.mark.parametrize("given", [([1, 2, 3], ANSWER), (PROMPT, [4, 5])])
def test_token_ids_of_another_model_are_refused(given: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="token ids of the model that answered"):
        reader_of().attribute(*given, [MILL, INN], answered_by="gpt-4o")


STRICT = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
ONLY_KNOWN_ROLES = (
    "{% for message in messages %}{% if message['role'] in ['user', 'assistant'] %}<|im_start|>"
    "{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}<|im_start|>assistant\n"
)
AS_JSON = (
    "{% for message in messages %}<|im_start|>{{ message['content'] | tojson }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
CALL = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"q": "inn"}'}}
WITH_TOOLS: Sequence[Mapping[str, Any]] = [
    {"role": "developer", "content": "Answer from what the tool finds."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": f'{MILL}\n"{INN}"'},
]


@pytest.mark.parametrize("template", [STRICT, ONLY_KNOWN_ROLES, AS_JSON, None])
def test_messages_that_the_readers_template_does_not_take_are_read(
    template: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metaspace().tokenizer, "chat_template", template)
    attributor = Attributor(metaspace(), **EXACT)
    read = attributor.attribute(WITH_TOOLS, ANSWER, [MILL, INN], answered_by="gpt-4o")
    assert not read.not_located and not read.partly_located
    kept = attributor._generations.get(read.provenance)
    assert kept is not None
    text = metaspace().decode(kept.prompt_ids)
    assert QUESTION in text and "Answer from what the tool finds." in text


IN_BLOCKS = [
    {
        "role": "user",
        "content": [
            {"type": "document", "title": "a", "source": {"type": "text", "data": MILL}},
            {"type": "document", "title": "b", "source": {"type": "text", "data": INN}},
            {"type": "text", "text": QUESTION},
        ],
    }
]
AS_RESULTS = [
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "s", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "content": f"{MILL}\n{INN}"}]},
]
AS_ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
    {"type": "function_call", "call_id": "1", "name": "search", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": f"{MILL}\n{INN}"},
]
AS_CONTENTS = [
    {"role": "user", "parts": [{"text": QUESTION}]},
    {"role": "user", "parts": [{"function_response": {"response": {"result": [MILL, INN]}}}]},
]


@pytest.mark.parametrize("prompt", [IN_BLOCKS, AS_RESULTS, AS_ITEMS, AS_CONTENTS])
def test_messages_as_hosted_models_take_them_are_read_and_asked_again(prompt: Any) -> None:
    attributor = reader_of()
    read = attributor.attribute(prompt, ANSWER, [MILL, INN], answered_by="claude")
    assert not read.not_located and not read.partly_located
    cut = str(without(read, attributor, 1))
    assert INN not in cut and MILL in cut and QUESTION in cut


def of_langchain(text: str) -> Any:
    messages = pytest.importorskip("langchain_core.messages")
    return [messages.HumanMessage(QUESTION), messages.ToolMessage(text, tool_call_id="1")]


def of_llama_index(text: str) -> Any:
    types = pytest.importorskip("llama_index.core.base.llms.types")
    cited = types.CitableBlock(title="", source="", content=[types.TextBlock(text=text)])
    return [types.ChatMessage(QUESTION), types.ChatMessage(role="tool", blocks=[cited])]


@pytest.mark.parametrize("made", [of_langchain, of_llama_index])
def test_message_objects_are_read_and_copied(made: Any) -> None:
    prompt, attributor = made(f"{MILL}\n{INN}"), reader_of()
    read = attributor.attribute(prompt, ANSWER, [MILL, INN], answered_by="claude")
    assert not read.not_located
    asked = without(read, attributor, 1)
    assert list(map(type, asked)) == list(map(type, prompt))
    assert INN not in str(asked) and MILL in str(asked) and INN in str(prompt)


def without(attribution: Attribution, attributor: Attributor, *documents: int) -> Any:
    """The prompts that were asked for, when a model answers each with its length."""
    asked: list[Any] = []

    def ask(prompt: Any, **settings: Any) -> str:
        asked.append((prompt, settings))
        return " I do not know. "

    second = attributor.answer_without(attribution, *documents, ask=ask, seed=7)
    assert second.response == "I do not know." and second.documents == documents
    assert len(asked) == 1 and asked[0][1] == {"seed": 7}
    return asked[0][0]


def test_the_model_that_answered_is_asked_once_without_the_documents() -> None:
    attributor = reader_of()
    read = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="gpt-4o")
    assert without(read, attributor, 0) == [
        PROMPT[0],
        {"role": "user", "content": f"{INN}\n\n{QUESTION}"},
    ]
    text = f"{INN}\n{MILL}\n{QUESTION}"
    read = attributor.attribute(text, ANSWER, [MILL, INN], answered_by="gpt-4o")
    assert without(read, attributor, 1) == f"{MILL}\n{QUESTION}"
    read = attributor.attribute(WITH_TOOLS, ANSWER, [MILL, INN], answered_by="gpt-4o")
    cut = without(read, attributor, 0, 1)
    assert cut[:3] == list(WITH_TOOLS[:3])
    assert cut[3] == {**WITH_TOOLS[3], "content": '""'}


def test_what_a_document_is_worth_to_the_reader_stands_beside_the_second_answer() -> None:
    attributor = reader_of()
    read = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="gpt-4o")
    second = attributor.answer_without(read, 1, ask=lambda prompt: "None.")
    own = attributor.attribute(PROMPT, ANSWER, [MILL, INN])
    assert second.score == pytest.approx(attributor.answer_without(own, 1, max_new_tokens=2).score)
    assert any("gpt-4o" in note for note in second.notes)


def test_a_model_that_cannot_be_asked_again() -> None:
    attributor = reader_of()
    read = attributor.attribute(PROMPT, ANSWER, [MILL, INN], answered_by="gpt-4o")
    with pytest.raises(NotRecorded, match=r"pass ask=, .* a prompt to gpt-4o"):
        attributor.answer_without(read, 0)


IN_ANOTHER_DOCUMENT = f"{MILL} / Orrin / {QUESTION}"
IN_INSTRUCTIONS = [
    {"role": "system", "content": "The inner rooms of an inn are no rooms of guests."},
    {"role": "user", "content": f"{MILL} / inn / {QUESTION}"},
]
IN_EARLIER_TURN = [
    {"role": "user", "content": "Is breakfast at seventeen past?"},
    {"role": "assistant", "content": None},
    {"role": "user", "content": [{"type": "image_url"}, MILL, f"at seven, {QUESTION}"]},
]


@pytest.mark.parametrize(
    ("prompt", "document", "cut"),
    [
        (IN_ANOTHER_DOCUMENT, "Orrin", f"{MILL} /  / {QUESTION}"),
        (
            IN_INSTRUCTIONS,
            "inn",
            [
                {"role": "system", "content": "The inner rooms of an  are no rooms of guests."},
                {"role": "user", "content": f"{MILL} /  / How many rooms has the ?"},
            ],
        ),
        (
            IN_EARLIER_TURN,
            "at seven",
            [
                *IN_EARLIER_TURN[:2],
                {"role": "user", "content": [{"type": "image_url"}, MILL, f", {QUESTION}"]},
            ],
        ),
    ],
)
def test_a_text_that_stands_elsewhere_too_is_cut_where_it_is_the_document(
    prompt: Any, document: str, cut: Any
) -> None:
    attributor = reader_of()
    read = attributor.attribute(prompt, ANSWER, [MILL, document], answered_by="gpt-4o")
    assert without(read, attributor, 1) == cut


PARTS: list[Any] = [
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "one two"}]},
    {"role": "assistant", "content": None},
    {"role": "tool", "content": ["two three", "four"]},
]


@pytest.mark.parametrize(
    ("prompt", "read", "places", "cut"),
    [
        ("One. Two. One.", "One. Two. One.", [(0, 5), (10, 14)], "Two. "),
        ("A mill.\n\nAn inn.", "<s>A mill.\n\nAn inn.", [(3, 12)], "An inn."),
        ("A mill.", "A mill.\n<end>", [(0, 8)], ""),
        ("aaa", "aaa", [(1, 3)], "a"),
        (
            PARTS,
            "one two|two three|four",
            [(8, 12), (18, 22)],
            [*PARTS[:2], {"role": "tool", "content": ["three", ""]}],
        ),
    ],
)
def test_passages_are_cut_out_of_texts_and_parts(
    prompt: Any, read: str, places: Any, cut: Any
) -> None:
    assert prompt_without(prompt, read, places) == cut


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("An inn.", "A mill."),
        (["An inn."], "A mill.\nAn inn."),
        (
            [{"role": "system", "content": "A mill."}, {"role": "user", "content": "A mill."}],
            "A mill.",
        ),
        ("A mill.", "For example: A mill.\nA mill."),
    ],
)
def test_a_passage_that_was_changed_on_the_way_is_refused(prompt: Any, read: str) -> None:
    if isinstance(prompt, list):
        prompt = [{"role": "user", "content": content} for content in prompt]
    start = read.rindex("A mill.")
    with pytest.raises(InvalidInput, match=r"'A mill\.' .* ask the model yourself"):
        prompt_without(prompt, read, [(start, start + 7)])
