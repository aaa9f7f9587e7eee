"""A sentence beside its cited sources, in each language and of each kind."""

import pytest

from attribot_checks import check_sentence
from attribot_checks.reading import read
from attribot_rag.annotation import CitedText

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


def checked(
    sentence: str, *sources: str, language: str = "en", elsewhere: tuple[str, ...] = ()
) -> list[tuple[str, str, str | None]]:
    """The checks as (kind, value, value of the source)."""
    cited = [CitedText(index, text, language) for index, text in enumerate(sources)]
    checks = check_sentence(sentence, cited, language, prompt_texts=(*sources, *elsewhere))
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
        assert checked(in_words, in_digits, language=language) == []
        assert checked(in_digits, in_words, language=language) == []

    def test_another_number(self, language: str) -> None:
        other, metre = WORDS[language][1], BOX[language][1]
        source = box(language, f"23 {metre}")
        assert checked(box(language, f"26 {metre}"), source, language=language) == [
            ("number", "26", "23")
        ]
        assert checked(box(language, f"{other} {metre}"), source, language=language) == [
            ("number", other, "23")
        ]

    def test_another_unit(self, language: str) -> None:
        _, metre, foot = BOX[language]
        source = box(language, f"23 {metre}")
        assert checked(box(language, f"23 {foot}"), source, language=language) == [
            ("unit", foot, metre)
        ]
        assert checked(box(language, f"75 {foot}"), source, language=language) == []

    def test_another_day(self, language: str) -> None:
        size = f"23 {BOX[language][1]}"
        checks = checked(box(language, size, day=1), box(language, size), language=language)
        assert [(kind, value in DAYS[language][1]) for kind, value, _ in checks] == [("date", True)]

    def test_another_name(self, language: str) -> None:
        size = f"23 {BOX[language][1]}"
        (check,) = checked(box(language, size, name=1), box(language, size), language=language)
        assert check[0] == "name"
        assert check[1] in box(language, size, name=1)

    def test_a_negation_is_reported(self, language: str) -> None:
        plain, negated = NEGATED[language]
        assert [kind for kind, _, _ in checked(plain, negated, language=language)] == ["negation"]
        assert [kind for kind, _, _ in checked(negated, plain, language=language)] == ["negation"]
        assert checked(plain, plain, language=language) == []
        assert checked(negated, negated, language=language) == []
        assert checked(plain, negated, plain, language=language) == []


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
def test_the_same_fact_in_other_words_is_not_reported(sentence: str, source: str) -> None:
    assert checked(sentence, source) == []


def test_values_elsewhere_in_the_prompt_are_left_out() -> None:
    sentence, source = "It has 340 seats and opened in 1884.", "It has many seats."
    assert checked(sentence, source) == [("number", "340", None), ("date", "1884", None)]
    assert checked(sentence, source, elsewhere=("It has 340 seats. It opened in 1884.",)) == []
    assert checked("It has 340 seats.", "It has 210 seats.", elsewhere=("340 cars came.",)) != []


def test_small_numbers_that_are_counted_are_left_out() -> None:
    assert checked("There are 3 ferries: A, B and C.", "The ferries are A, B and C.") == []


def test_chinese_numbers() -> None:
    assert checked("船有23间舱。", "船有二十三间舱。", language="zh") == []
    assert checked("船有28间舱。", "船有二十三间舱。", language="zh") == [
        ("number", "28", "二十三")
    ]
    assert checked("1994年5月3日启用。", "1994年6月3日启用。", language="zh") == [
        ("date", "1994年5月3日", "1994年6月3日")
    ]


def test_a_language_that_nobody_knows_and_nothing_cited() -> None:
    assert checked("Zzz 340 qqq.", "Zzz 210 qqq.", language="tlh") == [("number", "340", "210")]
    assert check_sentence("It has 340 seats.", [], "en") == ()


def test_a_source_in_another_language() -> None:
    cited = [CitedText(7, "Die Fähre hat dreiundzwanzig Kabinen.", "de")]
    assert check_sentence("The ferry has 23 cabins.", cited, "en") == ()


def test_nothing_but_letters_of_a_source_is_quoted() -> None:
    source = "The hall is not <b>[open](x)</b> in winter."
    (check,) = checked("The hall is open in winter.", source)
    assert check == ("negation", "open", "not")


class TestMoney:
    @pytest.mark.parametrize(
        ("amount", "same"),
        [
            ("12 euros", "12 EUR"),
            ("€12", "12.00 €"),
            ("$5m", "USD 5 million"),
            ("7.50 crowns", "7.50 Kč"),
            ("12 francs", "CHF 12.-"),
            ("&pound;12", "12 pounds"),
            ("£118.50", "118.50 British pounds"),
        ],
    )
    def test_the_same_amount(self, amount: str, same: str) -> None:
        assert checked(f"It costs {amount}.", f"Price: {same} a day") == []
        assert checked(f"Price: {same} a day", f"It costs {amount}.") == []

    @pytest.mark.parametrize(
        ("amount", "other", "check"),
        [
            ("12 euros", "9 EUR", ("number", "12", "9")),
            ("€ 7.50", "7 €", ("number", "7.50", "7")),
            ("12 EUR", "€9", ("number", "12", "9")),
            ("7.50 crowns", "7 Czech korunas", ("number", "7.50", "7")),
            ("7.50 crowns", "7 small crowns", ("number", "7.50", "7")),
            ("EUR 12", "12 dollars", ("unit", "EUR", "dollars")),
            ("12 pounds", "€12", ("unit", "pounds", "€")),
            ("$ 12", "300 crowns", ("number", "$ 12", "300 crowns")),
        ],
    )
    def test_another_amount(self, amount: str, other: str, check: tuple[str, ...]) -> None:
        assert checked(f"It costs {amount}.", f"It costs {other}.") == [check]

    def test_a_rounded_amount(self) -> None:
        assert checked("It costs about £120.", "It costs 118.50 pounds.") == []

    @pytest.mark.parametrize(
        ("language", "amount", "other"),
        [
            ("de", "12 Kronen", "9 CZK"),
            ("fr", "12 couronnes", "9 CZK"),
            ("es", "12 dólares", "9 US$"),
            ("it", "12 dollari", "USD 9"),
            ("ru", "12 рублей", "9 ₽"),
            ("zh", "12欧元", "9 EUR"),
        ],
    )
    def test_in_other_languages(self, language: str, amount: str, other: str) -> None:
        assert checked(amount, other, language=language) == [("number", "12", "9")]

    @pytest.mark.parametrize(
        "text", ["It runs PHP 8.1.", "In 1998 France won.", "It won 12 Europa titles.", "5 ft"]
    )
    def test_other_numbers_are_no_money(self, text: str) -> None:
        assert not any(
            quantity.unit and quantity.unit.is_currency for quantity in read(text, "en").quantities
        )

    @pytest.mark.parametrize(
        ("language", "sentence", "source"),
        [
            ("en", "The king owns 12 crowns.", "A ticket costs 9 €."),
            ("en", "Wales has 3 Crown Courts.", "The fee is $ 7 a day."),
            ("en", "They have 4 Euro 6 engines.", "A litre costs $2."),
            ("de", "Die Linde hat 3 Kronen.", "Der Eintritt beträgt 9 €."),
            ("es", "Llevaban 5 coronas de flores.", "La entrada vale 9 €."),
            ("fr", "Le roi avait 3 couronnes.", "Le billet coûte 9 €."),
        ],
    )
    def test_nouns_that_mean_something_else(
        self, language: str, sentence: str, source: str
    ) -> None:
        assert checked(sentence, source, language=language) == []

    def test_a_sign_between_two_numbers(self) -> None:
        first, second = read("It costs 5 € 7 days a week.", "en").quantities
        assert [quantity.unit and quantity.unit.name for quantity in (first, second)] == [
            "euro",
            "day",
        ]


@pytest.mark.parametrize(
    "space", ["&nbsp;", "&#160;", "&#xA0;", "&thinsp;", "\u00a0\u00a0", "\u2060"]
)
def test_units_after_invisible_spaces(space: str) -> None:
    assert checked(f"It is 6.8{space}m long.", f"It is 6.8{space}km long.") == [("unit", "m", "km")]
    assert checked(f"It is 7.2{space}%.", "It is 6.8 %.") == [("number", "7.2", "6.8")]
    assert checked(f"It is 12{space}000{space}m long.", "It is 12 kilometres long.") == []


@pytest.mark.parametrize(
    ("language", "sentence"), [("ja", "塔は{}メートルです。"), ("ko", "탑은 {}미터이다.")]
)
def test_languages_that_write_months_in_digits(language: str, sentence: str) -> None:
    assert checked(sentence.format(38), sentence.format(39), language=language) == [
        ("number", "38", "39")
    ]
    assert checked(sentence.format(38), sentence.format(38), language=language) == []
