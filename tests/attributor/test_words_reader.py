"""The reader without a model: words, numbers and names of an answer in its documents."""

import gc
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers
from sentence_transformers import CrossEncoder
from support.tiny_models import entailment_classifier

from attribot_rag import Attribution, VerdictOptions, WordsReader
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, NotRecorded, UnknownOption
from attribot_rag.support.helpers import Entailment
from benchmarks.experiment.baselines.similarity import default_embedder

MILL = "The mill at Orrin grinds 40 sacks of rye a day. Its wheel was made in 1911."
INN = "The inn at Orrin has nine rooms. Breakfast is at seven."
FERRY = "The ferry to Orrin sails at noon. A ticket costs 18 crowns."
QUESTION = "How many rooms has the inn?"


def asked(question: str, *documents: str) -> list[dict[str, str]]:
    passages = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(documents, 1))
    return [
        {"role": "system", "content": "Answer from the passages."},
        {"role": "user", "content": f"{passages}\n\n{question}"},
    ]


def read(
    answer: str, question: str = QUESTION, documents: Sequence[str] = (MILL, INN, FERRY), **of: Any
) -> Attribution:
    prompt = asked(question, *documents)
    return WordsReader(**of).attribute(prompt, answer, documents, answered_by="gpt-4o")


def cited(attribution: Attribution) -> list[tuple[str, list[str]]]:
    return [
        (verdict.kind, [attribution.sources[source].text.strip() for source in verdict.source_ids])
        for verdict in attribution.verdicts
    ]


def test_sentences_are_cited_from_what_says_them_and_inventions_from_nothing() -> None:
    attribution = read(
        "The inn has nine rooms. It has a garden with old apple trees. I hope this helps!"
    )
    assert cited(attribution) == [
        ("grounded", ["The inn at Orrin has nine rooms."]),
        ("unsupported", []),
        ("trivial", []),
    ]
    assert [v.support and v.support.kind for v in attribution.verdicts] == ["full", "none", None]
    provenance = attribution.provenance
    assert (provenance.basis, provenance.answered_by) == ("reader", "gpt-4o")
    assert (provenance.method, attribution.unit) == ("words", "words")
    assert "nats" not in attribution.to_table() and "nats" not in attribution.to_markdown()
    assert Attribution.from_json(attribution.to_json()) == attribution


@pytest.mark.parametrize(
    ("question", "answer", "document"),
    [
        ("When is breakfast?", "At seven.", INN),
        ("When is breakfast?", "At 7.", INN),
        ("What does a ticket for the ferry cost?", "18 crowns", FERRY),
        ("When was the wheel of the mill made?", "The answer is 1911.", MILL),
        ("When was the wheel of the mill made?", "It was made in 1911.", MILL),
    ],
)
def test_short_answers_are_found_by_the_words_of_the_question(
    question: str, answer: str, document: str
) -> None:
    attribution = read(answer, question)
    (verdict,) = attribution.verdicts
    assert verdict.kind == "grounded"
    (source,) = verdict.source_ids
    assert attribution.documents[attribution.sources[source].documents[0]].text == document


@pytest.mark.parametrize(
    "answer",
    ["The inn has twelve rooms.", "The inn at Skerry has nine rooms.", "The answer is 40."],
)
def test_another_number_or_name_or_question_is_not_said(answer: str) -> None:
    (verdict,) = read(answer).verdicts
    assert (verdict.kind, verdict.source_ids) == ("unsupported", ())


@pytest.mark.parametrize(
    "question", ["Summarise the passages.", "What is the price?", "How many rooms has the inn?"]
)
def test_what_stands_in_the_text_is_said_whatever_was_asked(question: str) -> None:
    attribution = read("A ticket costs 18 crowns [3]. Breakfast is at seven [2].", question)
    assert cited(attribution) == [
        ("grounded", ["A ticket costs 18 crowns."]),
        ("grounded", ["Breakfast is at seven."]),
    ]
    assert all(marker.supported for marker in attribution.markers)
    if question.startswith("Summarise"):
        assert "(" not in attribution.to_cited_text().split("\n")[0]


def test_what_a_sentence_repeats_of_a_question_about_several_things_is_enough() -> None:
    question = "Tell me about the mill, the inn, the ferry and the island."
    (verdict,) = read("The price of a ticket for the ferry is 18 crowns.", question).verdicts
    assert verdict.kind == "grounded"


def test_two_passages_that_say_a_sentence_only_together_are_both_cited() -> None:
    answer = "The inn has nine rooms, and a ticket costs 18 crowns [2][3]."
    attribution = read(answer, "Tell me more.")
    assert cited(attribution) == [
        ("grounded", ["The inn at Orrin has nine rooms.", "A ticket costs 18 crowns."])
    ]
    assert [marker.supported for marker in attribution.markers] == [True, True]
    other = read("The inn has nine rooms, and a ticket costs 40 euros [2][3].", "Tell me more.")
    assert other.verdicts[0].kind == "unsupported"


def test_it_is_not_known_whether_a_document_says_it_in_other_words() -> None:
    attribution = read("Breakfast starts early, around seven [2]. Anna Berg built the inn [3].")
    assert [marker.supported for marker in attribution.markers] == [None, False]
    text = attribution.to_cited_text()
    assert "seven [2]." in text and "(the model cites [3], which does not support it)" in text


MUSEUM = "The museum is not closed on Saturdays. Dogs may not enter the garden. The café is new."
AMOUNTS = "How much flour and water?"
BREAD = "Bread\n\n- 500 g flour\n- 300 ml water\n- 7 g yeast\n\nBake it for 45 minutes."


@pytest.mark.parametrize(
    ("question", "answer", "kind", "remark"),
    [
        ("Is it closed?", "The museum is closed on Saturdays.", "contradicted", "not closed in"),
        ("May dogs enter?", "Yes, dogs may enter the garden.", "contradicted", "not enter in"),
        ("May dogs enter?", "Dogs may not enter the garden.", "full", ""),
        (AMOUNTS, "You need 300 g of flour and 500 ml of water.", "contradicted", "500, 300 in"),
        (AMOUNTS, "You need 500 g of flour and 300 ml of water.", "full", ""),
        ("How old is the cook?", "7", "partial", "closest to [1], which may not say this"),
        ("How old is the cook?", "The cook is 45.", "partial", "which does not mention cook"),
        ("How old is the cook?", "The cook is 44.", "none", "not in the 2 passages found"),
    ],
)
def test_what_differs_from_the_nearest_text_is_told(
    question: str, answer: str, kind: str, remark: str
) -> None:
    made = read(answer, question, (MUSEUM, BREAD))
    (verdict,) = made.verdicts
    assert verdict.support is not None
    assert verdict.support.kind == kind
    shown = made.to_cited_text().split("\n")[0].partition("(")[2].rstrip(")")
    assert remark in shown if remark else not shown


def test_parts_of_a_list_that_say_a_sentence_together_are_the_right_ones() -> None:
    made = read("You need 500 g of flour and 300 ml of water.", AMOUNTS, (MUSEUM, BREAD))
    assert cited(made) == [("grounded", ["- 500 g flour", "- 300 ml water"])]


def test_what_several_say_alike_is_cited_from_either() -> None:
    again = "Travellers like it. The inn at Orrin has nine rooms, all with a view of the harbour."
    attribution = read("The inn has nine rooms.", documents=(MILL, INN, again))
    (verdict,) = attribution.verdicts
    assert (verdict.kind, verdict.relation) == ("redundant", "either")
    texts = {attribution.sources[source].documents for source in verdict.source_ids}
    assert texts == {(1,), (2,)}


def test_markers_are_audited_by_the_documents_that_say_the_sentence() -> None:
    better = "The inn at Orrin has nine rooms, says the guide of Orrin. How many rooms has the inn?"
    attribution = read(
        "The inn has nine rooms [2][4]. A ticket costs 18 crowns [1].",
        documents=(MILL, INN, FERRY, better),
    )
    assert [(m.document, m.supported) for m in attribution.markers] == [
        (1, True),
        (3, True),
        (0, False),
    ]
    assert "(the model cites [1], which does not support it)" in attribution.to_cited_text()


def test_scores_are_weights_of_words_and_rank_documents() -> None:
    attribution = read("The inn has nine rooms.")
    best = attribution.documents_by_effect()[0]
    assert best.index == 1 and best.score > 1
    start, end = attribution.find("nine")
    scores = [attribution.score(source.id, start, end) for source in attribution.sources]
    assert [score for score in scores if score] == [attribution.top(1, start, end)[0].score]
    assert attribution.top(1, start, end)[0].source.text.startswith("The inn at Orrin")


def test_what_is_not_in_the_prompt_is_said() -> None:
    prompt = asked(QUESTION, MILL)
    attribution = WordsReader().attribute(prompt, "The inn has nine rooms.", [MILL, INN])
    assert attribution.not_located == (1,)
    assert any("did not receive 1 of 2 documents" in note for note in attribution.notes)
    with pytest.raises(DocumentsNotLocated):
        WordsReader().attribute(prompt, "The inn has nine rooms.", [INN])


def test_what_repeats_an_earlier_turn_is_from_the_conversation() -> None:
    earlier = "Your room faces the harbour, and it has two beds."
    prompt = [
        {"role": "user", "content": "Which room is mine?"},
        {"role": "assistant", "content": earlier},
        *asked("What do you know of my room?", MILL, INN, FERRY)[1:],
    ]

    def kinds(answer: str) -> list[str]:
        read = WordsReader().attribute(prompt, answer, [MILL, INN, FERRY])
        return [verdict.kind for verdict in read.verdicts]

    assert kinds(earlier) == ["conversation"]
    assert kinds("Your room faces the harbour, and it has three beds.") == ["unsupported"]
    assert kinds(f"{earlier} The inn at Orrin has nine rooms.") == ["conversation", "grounded"]


def test_thinking_is_not_judged() -> None:
    attribution = read("<think>The mill has nine rooms.</think>The inn has nine rooms.")
    assert [kind for kind, _ in cited(attribution)] == ["reasoning", "grounded"]
    tags = VerdictOptions(thinking_tags=("<plan>", "</plan>"))
    attribution = read("<plan>The mill?</plan>The inn has nine rooms.", verdicts=tags)
    assert [kind for kind, _ in cited(attribution)] == ["reasoning", "grounded"]


def test_other_scripts_and_languages() -> None:
    german = "Die Mühle in Orrin mahlt 40 Säcke Roggen am Tag.", "Der Gasthof hat neun Zimmer."
    attribution = read("Der Gasthof hat 9 Zimmer.", "Wie viele Zimmer hat der Gasthof?", german)
    assert cited(attribution) == [("grounded", ["Der Gasthof hat neun Zimmer."])]
    chinese = "渡轮中午从港口出发。", "旅馆有九个房间。"
    attribution = read("旅馆有九个房间。", "旅馆有几个房间？", chinese)
    assert cited(attribution) == [("grounded", ["旅馆有九个房间。"])]


def test_the_model_that_answered_is_asked_again_without_documents() -> None:
    prompts: list[Any] = []

    def ask(prompt: Any, **settings: Any) -> str:
        prompts.append((prompt, settings))
        return " I do not know. "

    reader = WordsReader()
    prompt = asked(QUESTION, MILL, INN)
    attribution = reader.attribute(prompt, "The inn has nine rooms.", [MILL, INN])
    second = reader.answer_without(attribution, 1, ask=ask, temperature=0.5)
    assert second.response == "I do not know." and second.documents == (1,)
    ((cut, settings),) = prompts
    assert cut[1]["content"] == f"[1] {MILL}\n\n[2] \n\n{QUESTION}"
    assert settings == {"temperature": 0.5}
    assert second.score == pytest.approx(attribution.documents_by_effect()[0].score)
    assert reader.answer_without(attribution, 0, ask=ask).score == 0
    with pytest.raises(NotRecorded, match="pass ask="):
        reader.answer_without(attribution, 1)
    with pytest.raises(NotRecorded, match="not made by this reader"):
        WordsReader().answer_without(attribution, 1, ask=ask)
    with pytest.raises(InvalidInput, match="no document has the index 2"):
        reader.answer_without(attribution, 2, ask=ask)


def test_prompts_are_forgotten_with_their_attributions() -> None:
    reader = WordsReader()
    attribution = reader.attribute(asked(QUESTION, INN), "Nine rooms.", [INN])
    copy = Attribution(**vars(attribution))
    del attribution
    gc.collect()
    assert reader.answer_without(copy, 0, ask=lambda prompt: "None.").response == "None."
    assert len(reader._read._values) == 1
    del copy
    gc.collect()
    assert not reader._read._values


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "masked"}, InvalidInput, "method='masked': nothing is scored"),
        (
            {"verdicts": VerdictOptions(min_effect=1.0)},
            InvalidInput,
            "verdicts=.*nothing is scored",
        ),
        ({"verdicts": None}, InvalidInput, "verdicts=None: nothing is scored"),
        ({"metod": "masked"}, UnknownOption, "did you mean 'method'"),
    ],
)
def test_options_that_only_a_model_has_a_use_for(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        WordsReader(**options)


@pytest.mark.parametrize(
    ("prompt", "answer", "message"),
    [
        ([1, 2, 3], "Nine.", "does not know the token ids"),
        (INN, [1, 2, 3], "does not know the token ids"),
        (" ", "Nine.", "the prompt is empty"),
        (INN, " ", "is empty, but for the prompt: nothing"),
    ],
)
def test_what_cannot_be_read(prompt: Any, answer: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        WordsReader().attribute(prompt, answer, [INN])


WITHOUT_MODEL = f"""
import sys
from attribot_rag import Document, WordsReader
prompt = {asked(QUESTION, MILL, INN)!r}
attribution = WordsReader().attribute(prompt, "The inn has nine rooms.", {[MILL, INN]!r})
assert attribution.verdicts[0].kind == "grounded"
attribution.to_table(), attribution.to_markdown(), attribution.to_html(), attribution.to_json()
assert not {{"torch", "transformers"}} & set(sys.modules)
"""


def test_no_pytorch_is_imported() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_MODEL], check=True)


ELSEWISE = "Guests can sleep in any of several chambers."
"""A sentence in other words than the passages'."""


def classifier(folder: Path, kind: str, **made: Any) -> Any:
    path = str(entailment_classifier(folder, **made))
    if kind == "CrossEncoder":
        return CrossEncoder(path)
    return transformers.pipeline("text-classification", model=path)


@pytest.mark.parametrize("kind", ["CrossEncoder", "pipeline"])
def test_a_classifier_finds_what_is_said_in_other_words(kind: str, tmp_path: Path) -> None:
    assert [verdict for verdict, _ in cited(read(ELSEWISE))] == ["unsupported"]
    attribution = read(ELSEWISE, helper=classifier(tmp_path / "nli", kind))
    ((verdict, sources),) = cited(attribution)
    assert verdict == "grounded" and len(sources) == 1
    support = attribution.verdicts[0].support
    assert support is not None and support.kind == "full" and not support.missing
    assert support.score is not None and 0.5 < support.score <= 1
    assert attribution.provenance.model == "word comparison and nli"
    denying = classifier(tmp_path / "denying", kind, says="contradiction")
    assert [kind for kind, _ in cited(read(ELSEWISE, helper=denying))] == ["unsupported"]


def test_a_classifier_does_not_find_numbers_that_no_passage_has(tmp_path: Path) -> None:
    reader = classifier(tmp_path, "pipeline")
    support = read("Guests can sleep in 14 chambers.", helper=reader).verdicts[0].support
    assert support is not None and support.kind == "partial"


def test_both_kinds_of_classifiers_give_the_same_probabilities(tmp_path: Path) -> None:
    folder = str(entailment_classifier(tmp_path, says="none"))
    texts = [MILL, INN, FERRY * 9]
    first, second = (
        Entailment(made).probabilities(texts, ELSEWISE)
        for made in (
            CrossEncoder(folder),
            transformers.pipeline("text-classification", model=folder),
        )
    )
    assert first == pytest.approx(second, abs=1e-6)
    assert len(set(first)) > 1


def test_other_classifiers_are_refused(tmp_path: Path) -> None:
    ranker = CrossEncoder(str(entailment_classifier(tmp_path / "ranker", labels=("relevance",))))
    with pytest.raises(InvalidInput, match=r"labels of 'ranker' are relevance; .*'entailment'"):
        WordsReader(helper=ranker)
    with pytest.raises(
        InvalidInput, match="'BertModel' neither classifies pairs of texts nor embeds"
    ):
        WordsReader(helper=transformers.AutoModel.from_pretrained(tmp_path / "ranker"))


class Embeddings:
    """MiniLM behind LangChain's method, or LlamaIndex's."""

    model_name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        self.embedded: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded.append(texts)
        return [[float(value) for value in row] for row in default_embedder().encode(texts)]


def test_embeddings_find_what_resembles_a_sentence_and_support_has_the_words_that_are_missing() -> (
    None
):
    sentence = "The hostel in Orrin offers nine rooms to guests."
    assert cited(read(sentence, "What is there in Orrin?")) == [("unsupported", [])]
    embeddings = Embeddings()
    attribution = read(sentence, "What is there in Orrin?", helper=embeddings)
    assert cited(attribution) == [("grounded", ["The inn at Orrin has nine rooms."])]
    support = attribution.verdicts[0].support
    assert support is not None
    assert "hostel" in [sentence[word.start : word.end] for word in support.missing]
    assert attribution.provenance.model == "word comparison and all-MiniLM-L6-v2"
    passages, (asked,) = embeddings.embedded
    assert asked == sentence and len(passages) == len(set(passages))


def test_embeddings_are_asked_only_where_words_find_nothing() -> None:
    embeddings = Embeddings()
    assert cited(read("The inn at Orrin has nine rooms.", helper=embeddings))[0][0] == "grounded"
    assert not embeddings.embedded
    stamps, coins = "The mayor likes to collect old stamps.", "The baker keeps foreign coins."
    kinds = [kind for kind, _ in cited(read(f"{stamps} {coins}", helper=embeddings))]
    assert kinds == ["unsupported", "unsupported"]
    passages, *sentences = embeddings.embedded  # the passages are embedded once
    assert len(passages) > 1 and sentences == [[stamps], [coins]]
