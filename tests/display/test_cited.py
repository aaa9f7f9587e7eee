"""Citations within the answer's text."""

from support.attributions import handmade

from attribot_rag.display import render_cited


def test_every_sentence_is_followed_by_the_numbers_that_it_cites() -> None:
    answer = "The tower is high. Nobody knows why.\nIt was built in 1844."
    found = handmade(
        answer,
        ["It is 38 metres high.", "It was built in 1844. It is grey."],
        {
            "It is 38 metres high.": (9.0, 0.0, 0.0),
            "It was built in 1844.": (0.0, 0.0, 7.0),
            "It is grey.": (0.1, 0.0, 0.0),
        },
    )
    expected = "The tower is high. [1] Nobody knows why.\nIt was built in 1844. [2]"
    assert render_cited(found) == expected
    assert found.to_cited_text() == expected


def test_without_citations_it_is_the_answer() -> None:
    found = handmade("All is well.", ["A document."], {"A document.": (0.1,)})
    assert render_cited(found) == "All is well."
