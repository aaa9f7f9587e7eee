"""The likelihood of the question, which support asks a model for where words leave a doubt."""

from copy import deepcopy

from attribot_rag import Attributor, LocalModel

DOCUMENTS = ["The guarantee lasts 24 months.", "The tenant gives notice of three months."]
QUESTION = "How long does the guarantee last for pensioners?"
PROMPT = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "\n\n".join([*DOCUMENTS, QUESTION])},
]
ANSWER = "The guarantee lasts 24 months for every pensioner."
REFUSES = "{% if messages[0]['role'] != 'system' %}{{ raise_exception('system first') }}{% endif %}"


def test_a_template_that_takes_no_question_alone_costs_no_attribution(smollm2: LocalModel) -> None:
    """Words decide then; elsewhere, one row more is counted."""
    tokenizer = deepcopy(smollm2.tokenizer)
    assert isinstance(tokenizer.chat_template, str)
    tokenizer.chat_template = REFUSES + tokenizer.chat_template
    asked, refused = (
        Attributor(smollm2.model, each, progress=False).attribute(PROMPT, ANSWER, DOCUMENTS)
        for each in (smollm2.tokenizer, tokenizer)
    )
    by_model, by_words = asked.verdicts[0].support, refused.verdicts[0].support
    assert by_model is not None and by_words is not None
    assert by_model.kind == "partial"  # the question is a surprise for the model
    assert by_words.kind == "full"
    assert by_model.source_ids == by_words.source_ids
    work, less = asked.provenance, refused.provenance
    assert work.forward_passes == less.forward_passes + 1
    assert 0 < work.scored_tokens - less.scored_tokens < 100
