"""Generations of which only the last ids of the prompt are known, the others being in a cache."""

import logging
from collections.abc import Sequence

import pytest
import torch
from support.scripted_generation import ANSWER, DOCUMENTS, Saying, generate, messages, rendered
from support.tiny_models import unshared
from transformers import Cache, DynamicCache, LogitsProcessorList, StaticCache

from attribot_rag import Attributor
from attribot_rag.errors import NotRecorded
from attribot_rag.model.generation import cache_inputs
from attribot_rag.recording import Answer

MODEL = unshared()
LONG, SHORT = rendered(MODEL), rendered(MODEL, DOCUMENTS[:2])
VARIANTS = {
    "one": ([LONG], False, 12),
    "left-padded": ([LONG, SHORT], False, 9),
    "static cache": ([SHORT], True, 30),
    "last id": ([LONG], False, 1),
}


def say_after_cache(prompts: Sequence[str], is_static: bool, num_last: int) -> None:
    """Have the model read a part of the prompts, then answer after their last ids."""
    inputs = MODEL.tokenizer(
        list(prompts),
        add_special_tokens=False,
        padding=len(prompts) > 1,
        padding_side="left",
        return_tensors="pt",
    )
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    answer = [*MODEL.encode(ANSWER), int(MODEL.tokenizer.eos_token_id)]
    config, length = MODEL.model.config, ids.shape[1] + len(answer)
    cache: Cache = DynamicCache(config=config)
    if is_static:
        cache = StaticCache(config=config, max_cache_len=length)
    known = cache_inputs(MODEL.model, cache)
    with torch.no_grad():
        MODEL.model(ids[:, :-num_last], attention_mask=mask[:, :-num_last], **known)
    output = generate(
        MODEL,
        ids[:, -num_last:],
        attention_mask=mask,
        logits_processor=LogitsProcessorList([Saying([answer] * len(ids), num_last)]),
        max_new_tokens=len(answer),
        do_sample=False,
        **known,
    )
    assert output[:, num_last:].tolist() == [answer] * len(ids)


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_not_recorded_and_with_its_prompt_tokenized_again(
    variant: str, caplog: pytest.LogCaptureFixture
) -> None:
    attributor = Attributor(MODEL, method="leave_one_out", verdicts=None, progress=False)
    expected = attributor.attribute(messages(), ANSWER, DOCUMENTS)
    with caplog.at_level(logging.DEBUG, "attribot_rag"), attributor.recorder as recorder:
        say_after_cache(*VARIANTS[variant])
    assert not caplog.records and recorder.generations == ()
    with pytest.raises(NotRecorded):
        attributor.attribute_answer(Answer(ANSWER, documents=DOCUMENTS))
    attribution = attributor.attribute(messages(), ANSWER, DOCUMENTS)
    assert attribution.provenance.retokenized
    assert attribution.token_scores == expected.token_scores
