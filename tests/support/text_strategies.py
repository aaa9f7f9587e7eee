"""Hypothesis strategies for texts of any script, and for what is cut out of them."""

from hypothesis import strategies as st

from support.tiny_models import CORPUS

WORDS = CORPUS.split()
SPACES = [
    *(" ", "  ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", " \n ", " " * 10),
    *("\u3000", "\u00a0", "\x1d"),
]
ODDITIES = [
    *("🙂", "👩\u200d👩\u200d👧", "é", "e\u0301", "条約", "署名された。", "שלום", "\u200f", "\x00"),
    *("\ufffd", "a" * 9, "1648", "ﷺ", "ſ", "...", "?!", "Dr. ", "«Ja.»"),
]
MARKERS = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|im_", "end|>"]

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
words = st.sampled_from(WORDS).flatmap(lambda word: st.sampled_from([word, word + " "]))
fragments = words | st.sampled_from(SPACES) | st.sampled_from(ODDITIES) | any_text


def texts(*, min_fragments: int = 0, markers: bool = False) -> st.SearchStrategy[str]:
    """Words, white space, emoji, marks, several scripts, control characters; markers too."""
    parts = fragments | st.sampled_from(MARKERS) if markers else fragments
    return st.lists(parts, min_size=min_fragments, max_size=50).map("".join)


@st.composite
def removals(draw: st.DrawFn, text: str) -> list[tuple[int, int]]:
    """Up to four disjoint intervals of a text, ascending."""
    places = st.integers(0, len(text))
    edges = sorted(draw(st.sets(places, max_size=8)))
    return list(zip(edges[::2], edges[1::2], strict=False))


def without(text: str, removed: list[tuple[int, int]]) -> str:
    """The text less these disjoint intervals."""
    for start, end in sorted(removed, reverse=True):
        text = text[:start] + text[end:]
    return text


def unspaced(text: str) -> str:
    """The text less its white space."""
    return "".join(text.split())
