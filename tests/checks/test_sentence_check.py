"""A sentence beside what it cites, in each language and of each kind."""

import pytest

from attribot_rag.checks import CitedText, check_sentence

BOX = {
    "de": ("Die Truhe ist {} und wurde {} von {} in Norden gebaut.", "Meter", "Fuß"),
    "en": ("The chest is {} and was built {} by {} in the north.", "metres", "feet"),
    "es": ("El cofre mide {} y fue hecho {} por {} en el norte.", "metros", "pies"),
    "fr": ("Le coffre mesure {} et fut fait {} par {} dans le nord.", "mètres", "pieds"),
    "it": ("Il baule misura {} e fu fatto {} da {} nel nord.", "metri", "piedi"),
    "ru": ("Длина сундука {}, его сделал {} мастер {} на севере.", "метров", "футов"),
}
DAYS = {
    "de": ("am 4. Mai 2011", "am 4. Juni 2011", "am 04.05.2011"),
    "en": ("on 4 May 2011", "on 4 June 2011", "on May 4th, 2011"),
    "es": ("el 4 de mayo de 2011", "el 4 de junio de 2011", "el 2011-05-04"),
    "fr": ("le 4 mai 2011", "le 4 juin 2011", "le 04/05/2011"),
    "it": ("il 4 maggio 2011", "il 4 giugno 2011", "il 4/5/2011"),
    "ru": ("4 мая 2011", "4 июня 2011", "04.05.2011"),
}
NAMES = {"ru": ("Олаф Брант", "Нильс Эггерт")}
WORDS = {
    "de": ("dreiundzwanzig", "vierundzwanzig"),
    "en": ("twenty-three", "twenty-four"),
    "es": ("veintitrés", "veinticuatro"),
    "fr": ("vingt-trois", "vingt-quatre"),
    "it": ("ventitré", "ventiquattro"),
    "ru": ("двадцать три", "двадцать четыре"),
}
NEGATED = {
    "de": ("Die Halle ist im Winter geöffnet.", "Die Halle ist im Winter nicht geöffnet."),
    "en": ("The hall is open in winter.", "The hall isn't open in winter."),
    "es": ("La sala está abierta en invierno.", "La sala no está abierta en invierno."),
    "fr": ("La salle est ouverte en hiver.", "La salle n'est pas ouverte en hiver."),
    "it": ("La sala è aperta in inverno.", "La sala non è aperta in inverno."),
    "ru": ("Зал открыт для гостей зимой.", "Зал не открыт для гостей зимой."),
}
LANGUAGES = tuple(BOX)


def told(
    sentence: str, *sources: str, language: str = "en", seen: tuple[str, ...] = ()
) -> list[tuple[str, str, str | None]]:
    """The checks as (kind, value, what the source has)."""
    cited = [CitedText(index, text, language) for index, text in enumerate(sources)]
    checks = check_sentence(sentence, cited, language, seen=(*sources, *seen))
    for check in checks:
        assert sentence[check.start : check.end] == check.value
        if check.source is not None and check.source_value is not None:
            assert check.source_value in sources[check.source]
    return [(check.kind, check.value, check.source_value) for check in checks]


def box(language: str, size: str, *, day: int = 0, name: int = 0) -> str:
    names = NAMES.get(language, ("Olaf Brandt", "Nils Eggert"))
    return BOX[language][0].format(size, DAYS[language][day], names[name])


@pytest.mark.parametrize("language", LANGUAGES)
class TestEachLanguage:
    def test_the_same_values_are_no_news(self, language: str) -> None:
        number, metre = WORDS[language][0], BOX[language][1]
        in_words = box(language, f"{number} {metre}")
        in_digits = box(language, f"23 {metre}", day=2)
        assert told(in_words, in_digits, language=language) == []
        assert told(in_digits, in_words, language=language) == []

    def test_another_number(self, language: str) -> None:
        other, metre = WORDS[language][1], BOX[language][1]
        source = box(language, f"23 {metre}")
        assert told(box(language, f"26 {metre}"), source, language=language) == [
            ("number", "26", "23")
        ]
        assert told(box(language, f"{other} {metre}"), source, language=language) == [
            ("number", other, "23")
        ]

    def test_another_unit(self, language: str) -> None:
        _, metre, foot = BOX[language]
        source = box(language, f"23 {metre}")
        assert told(box(language, f"23 {foot}"), source, language=language) == [
            ("unit", foot, metre)
        ]
        assert told(box(language, f"75 {foot}"), source, language=language) == []

    def test_another_day(self, language: str) -> None:
        size = f"23 {BOX[language][1]}"
        checks = told(box(language, size, day=1), box(language, size), language=language)
        assert [(kind, value in DAYS[language][1]) for kind, value, _ in checks] == [("date", True)]

    def test_another_name(self, language: str) -> None:
        size = f"23 {BOX[language][1]}"
        (check,) = told(box(language, size, name=1), box(language, size), language=language)
        assert check[0] == "name"
        assert check[1] in box(language, size, name=1)

    def test_what_is_denied(self, language: str) -> None:
        plain, negated = NEGATED[language]
        assert [kind for kind, _, _ in told(plain, negated, language=language)] == ["negation"]
        assert [kind for kind, _, _ in told(negated, plain, language=language)] == ["negation"]
        assert told(plain, plain, language=language) == []
        assert told(negated, negated, language=language) == []
        assert told(plain, negated, plain, language=language) == []


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("1. It has 7 doors.", "It has seven doors."),
        ("It holds 1 200 000 maps [3].", "It holds 1.200.000 maps."),
        ("It cost 2.5 million crowns.", "It cost 2,500,000 crowns."),
        ("Nearly 1,200 people came.", "1,198 people came."),
        ("The halls seat 300 together.", "One hall seats 120, the other 180."),
        ("It was the twenty-first.", "It was the 21st."),
        ("It has ٢٣ doors.", "It has 23 doors."),
        ("It opens at 10:30.", "It opens at 10:30 a.m."),
        ("In the 1990s it grew.", "It grew in 1994."),
        ("Model B12 is red.", "The model is red."),
        ("The Norlanders like it.", "People of Norland like it."),
        ("The firm is not only old but rich.", "The firm is old and rich."),
        ("No, the hall is open in winter.", "The hall is open in winter."),
        ("They no longer pay the fee.", "They stopped paying the fee."),
        ("The tank holds 1800 litres.", "T2,Porter,1800,18.0"),
        ("It was filled at 18.0 degrees.", "2,1800,18.0,94"),
        ("It was cleaned 12 times.", "12,7,340"),
    ],
)
def test_what_is_said_in_another_way(sentence: str, source: str) -> None:
    assert told(sentence, source) == []


def test_what_stands_elsewhere_in_the_prompt_is_left_out() -> None:
    sentence, source = "It has 340 seats and opened in 1884.", "It has many seats."
    assert told(sentence, source) == [("number", "340", None), ("date", "1884", None)]
    assert told(sentence, source, seen=("It has 340 seats. It opened in 1884.",)) == []
    assert told("It has 340 seats.", "It has 210 seats.", seen=("340 cars came.",)) != []


def test_small_numbers_that_are_counted_are_left_out() -> None:
    assert told("There are 3 ferries: A, B and C.", "The ferries are A, B and C.") == []


def test_chinese_numbers() -> None:
    assert told("船有23间舱。", "船有二十三间舱。", language="zh") == []
    assert told("船有28间舱。", "船有二十三间舱。", language="zh") == [("number", "28", "二十三")]
    assert told("1994年5月3日启用。", "1994年6月3日启用。", language="zh") == [
        ("date", "1994年5月3日", "1994年6月3日")
    ]


def test_a_language_that_nobody_knows_and_nothing_cited() -> None:
    assert told("Zzz 340 qqq.", "Zzz 210 qqq.", language="tlh") == [("number", "340", "210")]
    assert check_sentence("It has 340 seats.", [], "en") == ()


def test_a_source_in_another_language() -> None:
    cited = [CitedText(7, "Die Fähre hat dreiundzwanzig Kabinen.", "de")]
    assert check_sentence("The ferry has 23 cabins.", cited, "en") == ()


def test_nothing_but_letters_of_a_source_is_quoted() -> None:
    source = "The hall is not <b>[open](x)</b> in winter."
    (check,) = told("The hall is open in winter.", source)
    assert check == ("negation", "open", "not")
