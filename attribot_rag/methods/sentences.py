"""Which of the response's tokens make up its sentences."""

from __future__ import annotations

from attribot_rag.context import TokenizedText
from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.scoring import Scorer


def answer_sentences(scorer: Scorer) -> list[range]:
    """The columns of each sentence of the response, in order; none is empty."""
    response = TokenizedText.of(
        scorer.generation.response_ids, scorer.language_model, skip_special_tokens=True
    )
    spans = split_spans(response.text, sentences)
    return [tokens for span in spans if (tokens := response.tokens_in(span))]
