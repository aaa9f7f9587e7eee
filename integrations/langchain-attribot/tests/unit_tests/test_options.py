"""Options and their results, for type checkers too: mypy reads this file.

Where mypy has to find a mistake, a comment says so; mypy rejects a comment without a mistake.
"""

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_huggingface import ChatHuggingFace
from typing_extensions import assert_type

from attribot_rag.errors import UnknownOption
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    attribute,
    with_attribution,
)

MEANT = r"no option 'metod'; did you mean 'method'\?"


def chain_of(chat: ChatHuggingFace) -> Runnable[str, str]:
    return RunnableLambda[str, str](lambda question: question) | chat | StrOutputParser()


IMPORTED = """
import sys
import langchain_attribot
from langchain_attribot import AttributionCallbackHandler, attribute, retrieved, with_attribution
assert not {"torch", "transformers", "scipy"} & set(sys.modules)
"""


def test_no_pytorch_is_imported_before_something_is_scored() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], check=True)


def test_a_misspelt_option_names_the_right_one(tiny_chat: ChatHuggingFace) -> None:
    with pytest.raises(UnknownOption, match=MEANT):
        AttributionCallbackHandler(tiny_chat, metod="auto")  # type: ignore[call-arg]
    with pytest.raises(UnknownOption, match=MEANT):
        AttributionMiddleware(tiny_chat, metod="auto")  # type: ignore[call-arg]
    with pytest.raises(UnknownOption, match=MEANT):
        with_attribution(chain_of(tiny_chat), metod="auto")  # type: ignore[call-arg]
    with (
        pytest.raises(UnknownOption, match=r"did you mean 'citations'\?"),
        attribute(tiny_chat, citation=True),  # type: ignore[call-arg]
    ):
        pass


def test_an_attributed_chain_keeps_types_of_question_and_answer(tiny_chat: ChatHuggingFace) -> None:
    attributed = with_attribution(chain_of(tiny_chat))
    result = attributed.invoke("How high is the lighthouse?")
    assert_type(result["answer"], str)
    assert_type(result["attribution"], dict[str, Any] | None)
    assert isinstance(result["answer"], str) and result["attribution"] is None
    attributed.handler.close()
