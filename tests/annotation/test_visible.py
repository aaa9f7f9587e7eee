"""Texts without the characters that are not seen."""

import pytest

from attribot_rag.annotation import Visible


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\ufeff", "\u2060", "\u200e\u200b"])
def test_what_is_seen_and_where_it_stands(unseen: str) -> None:
    source = f"{unseen}The weir{unseen} of 18{unseen}74.{unseen}"
    visible = Visible.of(source)
    assert visible.text == "The weir of 1874."
    start = visible.text.index("1874")
    assert source[slice(*visible.interval(start, start + 4))] == f"18{unseen}74"


def test_joiners_of_letters_stay() -> None:
    assert Visible.of("می\u200cروم क्\u200dष").text == "می\u200cروم क्\u200dष"
