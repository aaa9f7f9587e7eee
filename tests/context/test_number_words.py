"""Numbers in words, and the other spellings of the numbers of a text."""

import pytest

from attribot_rag.context.text import other_spellings


@pytest.mark.parametrize(
    ("text", "language", "spelled"),
    [
        ("eleven barges", "en", {"11"}),
        ("11 barges", "en", {"eleven"}),
        ("thirty-four barges", "en", {"34"}),
        ("34 barges", "en", {"thirty", "four"}),
        ("the fourth lock", "en", {"4"}),
        ("a toll of 2,750 crowns", "en", {"2750"}),
        ("ein Zoll von 2.750 Kronen", "de", {"2750"}),
        ("zwölf Kähne", "de", {"12"}),
        ("16 péniches", "fr", {"seize"}),
        ("пять барж", "ru", {"5"}),
        ("treinta y cuatro barcazas", "es", {"34"}),
        ("trinta e quatro barcaças", "pt", {"34"}),
        ("quatre-vingt-deux péniches", "fr", {"82"}),
        ("femogtredive pramme", "da", {"35"}),
        ("tweeëntwintig schuiten", "nl", {"22"}),
        ("two thousand three hundred barges", "en", {"2300"}),
        ("три тысячи двадцать барж", "ru", {"3020"}),
        ("三百零四艘驳船", "zh", {"304"}),
    ],
)
def test_a_number_is_known_in_each_spelling(text: str, language: str, spelled: set[str]) -> None:
    assert spelled <= other_spellings(text, language)


@pytest.mark.parametrize("text", ["", "barges", "a lock", "x" * 50, "12.5", "1.2.3.4", "9" * 400])
def test_other_text_has_no_words_of_numbers(text: str) -> None:
    assert not any(word.isalpha() for word in other_spellings(text, "en"))
