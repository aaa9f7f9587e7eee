"""Values that are written in other ways in the sentence and in its source."""

import pytest

from attribot_checks import check_sentence
from attribot_rag.annotation import CitedText

SAME = [
    ("en", "The Hollin orchard is worth 3,456,700 rupees.", "... is worth 34,56,700 rupees."),
    ("en", "The Hollin orchard is worth 34,56,700 rupees.", "... is worth 3456700 rupees."),
    ("en", "The weir cost 6 crore rupees.", "The weir cost 60 million rupees."),
    ("en", "The weir cost 5 million rupees.", "The weir cost 50 lakh rupees."),
    ("en", "Some twenty-five lakh people came.", "2.5 million people came."),
    ("en", "It owes ₹3 lakh crore.", "It owes ₹3,000,000,000,000."),
    ("hi", "शहर में 1234500 लोग हैं।", "शहर में 12,34,500 लोग हैं।"),
    ("hi", "शहर में 70 लाख लोग हैं।", "शहर में 7000000 लोग हैं।"),
    ("en", "The dish holds one million spores.", "The dish holds 10⁶ spores."),
    ("en", "The dish holds 7,000,000 spores.", "The dish holds 7 × 10^6 spores."),
    ("en", "The dish holds 7.2 million spores.", "The dish holds 7.2e6 spores."),
    ("en", "The dish holds 40,000 spores.", "The dish holds 4·10<sup>4</sup> spores."),
    ("en", "The ride takes 2.5 hours.", "The ride takes 2½ hours."),
    ("en", "It takes 1.5 litres.", "It takes 1 1/2 litres."),
    ("en", "The ride takes 150 minutes.", "The ride takes two and a half hours."),
    ("en", "The ride takes half an hour.", "The ride takes 30 minutes."),
    ("en", "She was away for 18 months.", "She was away for a year and a half."),
    ("en", "The ride takes 1 hour and 45 minutes.", "The ride takes 105 minutes."),
    ("en", "The hedge is 4 feet 11 inches high.", "The hedge is 150 cm high."),
    ("de", "Der Kurs dauert 90 Minuten.", "Der Kurs dauert eineinhalb Stunden."),
    ("de", "Der Kurs dauert 30 Minuten.", "Der Kurs dauert eine halbe Stunde."),
    ("fr", "Le cours dure 210 minutes.", "Le cours dure trois heures et demie."),
    ("es", "El curso dura 150 minutos.", "El curso dura dos horas y media."),
    ("it", "Il corso dura 90 minuti.", "Il corso dura un'ora e mezza."),
    ("pt", "O curso dura 150 minutos.", "O curso dura duas horas e meia."),
    ("nl", "De les duurt 90 minuten.", "De les duurt anderhalf uur."),
    ("da", "Kurset varer 90 minutter.", "Kurset varer halvanden time."),
    ("ru", "Урок длится 90 минут.", "Урок длится полтора часа."),
    ("ru", "Урок длится 150 минут.", "Урок длится два с половиной часа."),
    ("en", "Call 020 7946 0123.", "Call (020) 7946-0123."),
    ("en", "Call +44 20 7946 0123.", "Call 02079460123."),
    ("en", "Call 030 98765432.", "Call +49 (0)30 987 654 32."),
    ("en", "Pay to FR14 2004 1010 0505 0001.", "Pay to FR142004101005050001."),
    ("en", "Pay to FR142004101005050001.", "Pay to FR14 2004 1010 0505 0001."),
    ("en", "The kiln opened in 1874.", "The\u200b kiln opened in 18\u200b74."),
    ("en", "The kiln holds 24,500 bricks.", "The kiln holds 24,\u00ad500 bricks."),
    ("en", "It was built by Tilde Brauer.", "\ufeffIt was built by Tilde Brau\u00ader."),
    ("de", "Sie hat dreiundzwanzig Türen.", "Sie hat drei\u00adund\u00adzwanzig Türen."),
]
OTHER = [
    ("en", "It is worth 34,65,700 rupees.", "It is worth 34,56,700 rupees.", "34,65,700"),
    ("en", "The weir cost 8 crore rupees.", "The weir cost 60 million rupees.", "8 crore"),
    ("en", "The weir cost 6 lakh rupees.", "The weir cost 6 crore rupees.", "6 lakh"),
    ("hi", "शहर में 80 लाख लोग हैं।", "शहर में 70 लाख लोग हैं।", "80 लाख"),
    ("en", "It holds 10⁸ spores.", "It holds 10⁶ spores.", "10⁸"),
    ("en", "The ride takes 3½ hours.", "The ride takes 2½ hours.", "3½"),
    ("en", "The ride takes 80 minutes.", "It takes an hour and a half.", "80 minutes"),
    ("en", "It takes an hour and a half.", "It takes 2 hours.", "hour and a half"),
    ("en", "It takes 1 hour 45 minutes.", "It takes 75 minutes.", "1 hour 45"),
    ("de", "Der Kurs dauert 80 Minuten.", "Der Kurs dauert eineinhalb Stunden.", "80 Minuten"),
    ("fr", "Le cours dure 150 minutes.", "Le cours dure trois heures et demie.", "150 minutes"),
    ("en", "Call 020 7946 0321.", "Call (020) 7946-0123.", "020 7946 0321"),
    (
        "en",
        "Pay to FR14 2004 1010 0550 0001.",
        "Pay to FR142004101005050001.",
        "14 2004 1010 0550 0001",
    ),
    ("en", "It opened in 18\u200b47.", "It opened in 18\u00ad74.", "18\u200b47"),
]
NOWHERE = [
    ("en", "It was sold for 6.3 euros.", "Item 512, shelf 4", "6.3"),
    ("en", "It is 8.50 dollars cheaper.", "Vase | 512 | blue", "8.50"),
    ("en", "It costs €7.", "The shop sells a vase.", "7"),
    ("en", "The vase is 9.4 cm wide.", "The vase is blue.", "9.4"),
    ("en", "The share rose by 3.7 %.", "The share rose in May.", "3.7"),
    ("fr", "Le vase coûte 8,40 €.", "Le vase est bleu.", "8,40"),
]


def values(sentence: str, source: str, language: str) -> list[str]:
    cited = [CitedText(0, source, language)]
    return [
        check.value
        for check in check_sentence(sentence, cited, language, prompt_texts=(source,))
        if sentence[check.start : check.end] == check.value and (check.source_value or "") in source
    ]


@pytest.mark.parametrize(("language", "sentence", "source"), SAME)
def test_the_same_value(language: str, sentence: str, source: str) -> None:
    assert values(sentence, source, language) == []


@pytest.mark.parametrize(("language", "sentence", "source", "value"), OTHER)
def test_another_value(language: str, sentence: str, source: str, value: str) -> None:
    assert values(sentence, source, language) == [value]


@pytest.mark.parametrize(("language", "sentence", "source", "value"), NOWHERE)
def test_prices_and_decimals_that_stand_nowhere(
    language: str, sentence: str, source: str, value: str
) -> None:
    assert values(sentence, source, language) == [value]


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("Each boat carries 2.5 tonnes.", "The 8 boats carry 20 tonnes."),
        ("It rose by 12.5 %.", "It rose from 40 to 45 members."),
        ("It is half as wide, 0.5 times.", "It is as wide as the old one was long."),
        ("The king owns 3 crowns.", "The king is old."),
        ("It was cleaned 12 times.", "Pell,12,34,500"),
    ],
)
def test_what_may_be_calculated_or_counted(sentence: str, source: str) -> None:
    assert values(sentence, source, "en") == []


ROWS = ("| Ulm | 15:30 | 19 € | 1907 |", "| Orr | 14:10 | 22 € | 1911 |")


@pytest.mark.parametrize(
    ("sentence", "sources", "named"),
    [
        ("The boat to Orr leaves at 16:45.", ROWS, "14:10"),
        ("The boat to Ulm leaves at 16:45.", ROWS, "15:30"),
        ("The boat to Orr costs 30 €.", ROWS, "22"),
        ("The pier of Orr dates from 1931.", ROWS, "1911"),
        ("The boat leaves at 16:45.", ROWS, None),
        ("The boat to Orr leaves at 16:45.", (ROWS[0], "| Orr | at noon |"), "noon"),
        ("The boat to Orr leaves at 16:45.", ("Quay,Time\nUlm,15:30\nOrr,14:10",), "14:10"),
        ("The Orr boat carries 60 tonnes.", ("The Ulm boat carries 40 tonnes.",), "40"),
        (
            "The Orr boat carries 60 tonnes.",
            ("The Ulm boat carries 40 tonnes. The Orr boat carries 50 tonnes.",),
            "50",
        ),
    ],
)
def test_the_value_of_the_row_that_is_spoken_of(
    sentence: str, sources: tuple[str, ...], named: str | None
) -> None:
    cited = [CitedText(index, text, "en") for index, text in enumerate(sources)]
    (check,) = check_sentence(sentence, cited, "en")
    assert check.source_value == named
    assert check.source is None or (named or "") in sources[check.source]
