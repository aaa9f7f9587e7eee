"""Nodes whose text in the prompt is not their own, and postprocessors before and after ours."""

import gc
import weakref
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM, Postprocessor, ids_of, summary_of
from engines import engine_of, llm_of, nodes
from llama_index.core import Document
from llama_index.core.node_parser import (
    SentenceWindowNodeParser,
)
from llama_index.core.postprocessor import (
    MetadataReplacementPostProcessor,
)
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.summaries import EXACT

from attribot_rag import LocalModel

SENTENCES = (
    "The lighthouse is 38 metres high. ",
    "Its lamp was lit in 1844. ",
    "The keeper was Alaric Penhow. ",
    "The ferry carries 84 passengers. ",
    "A ticket costs 18 crowns.",
)
STRIPPED = tuple(map(str.strip, SENTENCES))
GUIDE = Document(text="".join(SENTENCES), doc_id="guide", metadata={"file_name": "guide.md"})


def sources_of(response: Any) -> set[str]:
    return {source["text"].strip() for source in summary_of(response)["sources"]}


def test_a_postprocessor_that_nobody_holds_is_freed(tiny_llm: LocalLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    assert ids_of(engine_of(tiny_llm, postprocessor).query(QUESTION))
    postprocessor.close()
    left = weakref.ref(postprocessor)
    del postprocessor
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("ours_first", [False, True])
def test_a_window_around_the_retrieved_sentence(
    tiny_llm: LocalLLM, postprocessor: Postprocessor, ours_first: bool
) -> None:
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    texts: Any = parser.get_nodes_from_documents([GUIDE])
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    both = [postprocessor, window] if ours_first else [window, postprocessor]
    response = engine_of(tiny_llm, *both, texts=texts, similarity_top_k=1).query(QUESTION)
    (node,) = response.source_nodes
    shown = node.node.get_content(MetadataMode.NONE)
    assert len(shown) > len(node.node.metadata["original_text"])
    assert sources_of(response) == {sentence for sentence in STRIPPED if sentence in shown}


@pytest.mark.slow
def test_nodes_that_are_cut_over_several_calls(
    tiny: LocalModel, postprocessor: Postprocessor
) -> None:
    sentences = [f"House number {number} has a blue door and a red roof." for number in range(120)]
    long = TextNode(text=" ".join(sentences), id_="long")
    llm = llm_of(tiny, max_new_tokens=4, is_chat_model=False)
    llm.context_window = 1024
    options: dict[str, Any] = {"response_mode": "compact", "similarity_top_k": 3}
    response = engine_of(llm, postprocessor, texts=[*nodes(), long], **options).query(QUESTION)
    summary = summary_of(response, "composite")
    runs = [postprocessor.results[call["run_id"]] for call in summary["calls"]]
    assert runs
    located = set()
    for run in (postprocessor.result(response), *runs):
        if run.attribution is not None:
            assert not run.attribution.not_located
            located |= {source.text for source in run.attribution.sources}
    assert len(located & set(sentences)) > 100
