"""The response's tokens by sentence."""

from __future__ import annotations

from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.scoring import Scorer


def answer_sentences(scorer: Scorer) -> list[range]:
    """The response tokens of each sentence, in order; sentences without tokens are left out."""
    spans = split_spans(scorer.response.text, sentences)
    return [tokens for span in spans if (tokens := scorer.response.tokens_in(span))]
