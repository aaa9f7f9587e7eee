"""The package as its README shows it."""

import pickle
import re
from pathlib import Path
from typing import Any

from support.scorers import ANSWER, TREATY, chat
from support.tiny_models import byte_level

from attribot_checks import ValueChecks
from attribot_rag.annotation import AnnotatedSentence, Annotator, CitedText

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_s_code_runs() -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {"language_model": byte_level(), "messages": chat(TREATY)}
    exec(code, names | {"response": ANSWER, "documents": TREATY})


def test_it_reads_each_sentence_and_works_in_another_process() -> None:
    annotator = pickle.loads(pickle.dumps(ValueChecks()))
    assert isinstance(annotator, Annotator)
    sentences = [
        AnnotatedSentence(
            start=0,
            end=len(text),
            text=text,
            language="en",
            cited=(CitedText(4, "The mill has 46 looms.", "en"),),
            prompt_texts=("The mill has 46 looms. Has it 60 looms?",),
        )
        for text in ("The mill has 47 looms.", "The mill has 46 looms.", "The mill has 60 looms.")
    ]
    first, *others = annotator.annotate(sentences)
    assert [(check.value, check.source_value, check.source) for check in first] == [("47", "46", 4)]
    assert others == [(), ()]
