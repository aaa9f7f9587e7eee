"""The coroutines of an Attributor give what its methods give, and let the event loop go on."""

import asyncio
from dataclasses import replace

from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION
from support.tiny_models import byte_level

from attribot_rag import Attribution, Attributor


def test_coroutines_give_what_the_methods_give() -> None:
    attributor = Attributor(byte_level(), method="leave_one_out", verdicts=None, progress=False)
    prompt = "\n".join([*DOCUMENTS, QUESTION])
    parts: list[Attribution] = []

    async def ask() -> tuple[Attribution, Attribution]:
        answered = await attributor.aask(QUESTION, DOCUMENTS, max_new_tokens=4)
        second = await attributor.aanswer_without(answered, 0)
        assert second == attributor.answer_without(answered, 0)
        attributing = asyncio.create_task(
            attributor.aattribute(prompt, ANSWER, DOCUMENTS, on_sentence=parts.append)
        )
        await asyncio.sleep(0)
        assert not attributing.done()
        return answered, await attributing

    answered, attribution = asyncio.run(ask())
    assert answered.response == attributor.ask(QUESTION, DOCUMENTS, max_new_tokens=4).response
    same = attributor.attribute(prompt, ANSWER, DOCUMENTS)
    assert replace(attribution, provenance=same.provenance) == same
    assert parts == [attribution]
