"""Texts in every script that Unicode knows, with the marks and spaces that may be in them."""

import sys
import unicodedata
from functools import cache

from hypothesis import strategies as st

MARKS = list(" \n\t.,;:!?…。！？،؟।۔\"'“”«»「」()[]*#|-–0123456789\u00ad\u200b\u200d\u3000\u0301")


@cache
def letters_by_script() -> dict[str, str]:
    """The letters and marks of each script, by the first word of their names."""
    by_script: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character)[0] in "LM":
            script = unicodedata.name(character, "").partition(" ")[0]
            by_script.setdefault(script, []).append(character)
    return {script: "".join(letters) for script, letters in by_script.items() if len(letters) >= 8}


@st.composite
def texts_in_a_script(draw: st.DrawFn) -> str:
    """A few sentences in one or two scripts, with a few other characters."""
    scripts = draw(
        st.lists(st.sampled_from(sorted(letters_by_script())), min_size=1, max_size=2, unique=True)
    )
    letters = "".join(letters_by_script()[script] for script in scripts)
    word = st.text(letters, min_size=1, max_size=9)
    mark = st.sampled_from(MARKS) | st.sampled_from([". ", ", ", "\n\n"])
    return "".join(draw(st.lists(word | word.map(lambda text: text + " ") | mark, max_size=40)))
