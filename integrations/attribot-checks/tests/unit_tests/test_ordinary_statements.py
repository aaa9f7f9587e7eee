"""Bounds, times, signs, parts of a unit, dozens, dates in numerals, and addresses."""

import pytest

from attribot_checks import check_sentence
from attribot_rag.annotation import Check, CitedText

HOLDS = [
    ("en", "Over 1,000 people came.", "1,487 people came."),
    ("en", "More than 2 km of pipe lie there.", "2,300 m of pipe lie there."),
    ("en", "At least 40 ships call.", "41 ships call."),
    ("en", "Up to 500 ships call each year.", "412 ships call each year."),
    ("en", "Between 400 and 500 ships call.", "412 ships call."),
    ("en", "It weighs under 3 kg.", "It weighs 2.8 kg."),
    ("en", "It costs less than $50.", "It costs $42."),
    ("en", "1,000 or more people came.", "1,487 people came."),
    ("en", "500+ ships call.", "612 ships call."),
    ("de", "Weniger als 500 Schiffe kommen.", "412 Schiffe kommen."),
    ("de", "Mindestens 400 Schiffe kommen.", "412 Schiffe kommen."),
    ("de", "Über 60 % stimmten zu.", "63 % stimmten zu."),
    ("fr", "Plus de 1 000 personnes sont venues.", "1 487 personnes sont venues."),
    ("fr", "Moins de 500 navires passent.", "412 navires passent."),
    ("es", "Más de 1.000 personas vinieron.", "1.487 personas vinieron."),
    ("it", "Oltre 1.000 persone vennero.", "1.487 persone vennero."),
    ("ru", "Более 1000 человек пришли.", "1487 человек пришли."),
    ("nl", "Meer dan 1.000 mensen kwamen.", "1.487 mensen kwamen."),
    ("pt", "Mais de 1.000 pessoas vieram.", "1.487 pessoas vieram."),
    ("en", "It opens at 8 a.m.", "It opens at 08:00."),
    ("en", "It opens at 8:30.", "It opens at 20:30."),
    ("en", "It closes at 12 pm.", "It closes at 12:00."),
    ("en", "It closes at noon.", "It closes at 12:00."),
    ("en", "It closes at 12:00.", "It closes at noon."),
    ("de", "Der Zug fährt um 18 Uhr.", "Der Zug fährt um 18:00 Uhr."),
    ("de", "Der Zug fährt um 18.30 Uhr.", "Der Zug fährt um 18:30 Uhr."),
    ("fr", "Le train part à 18h30.", "Le train part à 18:30."),
    ("en", "It leaves at 6:05 pm.", "It leaves at 18:05."),
    ("en", "Open from 9 am to 5 pm.", "Open 9:00-17:00."),
    ("en", "It leaves at 6 o'clock.", "It leaves at 18:00."),
    ("en", "Take 250 mcg.", "Take 250 µg."),
    ("en", "Take 250 mcg.", "Take 0.25 mg."),
    ("en", "It is 5 µm thick.", "It is 0.005 mm thick."),
    ("en", "The low was minus 12 °C.", "The low was −12 °C."),
    ("en", "It fell to 5 °C below zero.", "It fell to −5 °C."),
    ("en", "Output fell by 3 %.", "Change in output: -3 %."),
    ("de", "Es war minus 5 Grad.", "Es war -5 Grad."),
    ("fr", "Il faisait moins 5 °C.", "Il faisait −5 °C."),
    ("en", "Pages 5-12 are missing.", "Pages 5–12 are missing."),
    ("en", "It is -5 °C there.", "It is -5 °C there."),
    ("en", "A stamp costs 95 cents.", "A stamp costs $0.95."),
    ("en", "A stamp costs 95 cents.", "A stamp costs €0.95."),
    ("en", "A stamp costs 95¢.", "A stamp costs $0.95."),
    ("en", "A roll costs 80 pence.", "A roll costs £0.80."),
    ("en", "A roll costs 80p.", "A roll costs £0.80."),
    ("de", "Die Marke kostet 95 Cent.", "Die Marke kostet 0,95 €."),
    ("fr", "Le timbre coûte 95 centimes.", "Le timbre coûte 0,95 €."),
    ("es", "Cuesta 95 céntimos.", "Cuesta 0,95 €."),
    ("it", "Costa 95 centesimi.", "Costa 0,95 €."),
    ("en", "Rates rose by 75 basis points.", "Rates rose by 0.75 percentage points."),
    ("en", "The rate rose by 25 basis points.", "They raised the rate from 2.50 % to 2.75 %."),
    ("en", "500 g of flour are needed.", "Half a kilo of flour is needed."),
    ("en", "One in four pupils walks to school.", "Of the 160 pupils, 40 walk to school."),
    ("en", "It holds more than a thousand letters.", "The archive holds 1,487 letters."),
    ("en", "The tax rate is 0.19.", "The tax rate is 19 %."),
    ("en", "Rates rose by 75 bps.", "Rates rose by 0.75%."),
    ("de", "Die Zinsen stiegen um 75 Basispunkte.", "Die Zinsen stiegen um 0,75 Prozentpunkte."),
    (
        "fr",
        "Les taux ont monté de 75 points de base.",
        "Les taux ont monté de 0,75 point de pourcentage.",
    ),
    ("en", "Two dozen boats lie there.", "24 boats lie there."),
    ("en", "A dozen boats lie there.", "12 boats lie there."),
    ("en", "Half a dozen boats lie there.", "6 boats lie there."),
    ("en", "24 boats lie there.", "Two dozen boats lie there."),
    ("de", "Zwei Dutzend Boote liegen dort.", "24 Boote liegen dort."),
    ("fr", "Deux douzaines de bateaux sont là.", "24 bateaux sont là."),
    ("en", "Several hundred people came.", "412 people came."),
    ("en", "Hundreds of people came.", "412 people came."),
    ("en", "Dozens of boats lie there.", "38 boats lie there."),
    ("en", "Three hundred people came.", "300 people came."),
    ("en", "A few thousand people came.", "3,400 people came."),
    ("de", "Mehrere hundert Menschen kamen.", "412 Menschen kamen."),
    ("en", "The meeting is on 5 March 2024.", "DTSTART:20240305T150000Z"),
    ("de", "Das Treffen ist am 5. März 2024.", "Termin: 05.03.24"),
    ("en", "It closed on 3 April 2024.", "Opened 25/12/2023, closed 03/04/2024."),
    ("en", "It closed on March 4, 2024.", "Opened 12/25/2023, closed 03/04/2024."),
    ("en", "It closed on 3 April 2024.", "It closed on 03/04/2024."),
    ("en", "It closed on March 4, 2024.", "It closed on 03/04/2024."),
    ("en", "It closed on 5 March 2024.", "It closed on 2024-03-05T10:00:00Z."),
    ("en", "It closed on 5 March 1998.", "Closed: 05.03.98"),
    ("en", "It closed in March 2024.", "Closed: 20240305"),
    ("en", "Write to info@velmar.example.", "Bookings: INFO@velmar.example."),
    ("en", "See https://velmar.example/boats.", "See [boats](https://velmar.example/boats)."),
    ("en", "See www.velmar.example.", "See https://www.velmar.example/boats?id=2."),
    ("en", "See http://velmar.example/boats/.", "See https://velmar.example/boats"),
    ("en", "See <https://velmar.example/a_(b)>.", "See https://velmar.example/a_(b)"),
]
DIFFERS = [
    ("en", "No more than 300 ships call each year.", "412 ships call each year."),
    ("en", "Between 100 and 200 ships call.", "412 ships call."),
    ("en", "It weighs over 3 kg.", "It weighs 2.8 kg."),
    ("en", "It costs over $50.", "It costs $42."),
    ("de", "Höchstens 300 Schiffe kommen.", "412 Schiffe kommen."),
    ("fr", "Au moins 500 navires passent.", "412 navires passent."),
    ("en", "The train leaves at 18:30.", "The train leaves at 18:45."),
    ("en", "It opens at 8 am.", "It opens at 8 pm."),
    ("en", "It closes at 12:30 am.", "It closes at 12:30 pm."),
    ("de", "Der Zug fährt um 18.30 Uhr.", "Der Zug fährt um 18.45 Uhr."),
    ("fr", "Le train part à 18 h 30.", "Le train part à 18h45."),
    ("en", "It leaves at 6:05 am.", "It leaves at 18:05."),
    ("en", "Open from 9 am to 6 pm.", "Open 9:00-17:00."),
    ("en", "Take 250 mg.", "Take 250 mcg."),
    ("en", "It is 5 mm thick.", "It is 5 µm thick."),
    ("de", "Nehmen Sie 250 mg.", "Nehmen Sie 250 µg."),
    ("fr", "Prenez 250 mg.", "Prenez 250 µg."),
    ("en", "It takes 5 ms.", "It takes 5 µs."),
    ("en", "The low was 5 °C.", "The low was −5 °C."),
    ("en", "The low was -5 °C.", "The low was 5 °C."),
    ("en", "Growth was 3 %.", "Growth was -3 %."),
    ("en", "The balance is €250.", "The balance is -€250."),
    ("en", "The balance is 250 euros.", "The balance is -250 euros."),
    ("de", "Es war 5 °C kalt.", "Es war −5 °C kalt."),
    ("en", "A stamp costs 85 cents.", "A stamp costs $0.95."),
    ("en", "A stamp costs 95 dollars.", "A stamp costs 95 cents."),
    ("en", "Rates rose by 50 basis points.", "Rates rose by 0.75 percentage points."),
    ("en", "The rate rose by 35 basis points.", "They raised the rate from 2.50 % to 2.75 %."),
    ("en", "600 g of flour are needed.", "Half a kilo of flour is needed."),
    ("en", "One in five pupils walks to school.", "Of the 160 pupils, 40 walk to school."),
    ("en", "It holds more than two thousand letters.", "The archive holds 1,487 letters."),
    ("en", "The tax rate is 0.21.", "The tax rate is 19 %."),
    ("en", "Rates rose by 75 percent.", "Rates rose by 75 basis points."),
    ("en", "A dozen boats lie there.", "24 boats lie there."),
    ("en", "30 boats lie there.", "Two dozen boats lie there."),
    ("en", "Three hundred people came.", "412 people came."),
    ("en", "The meeting is on 6 March 2024.", "DTSTART:20240305T150000Z"),
    ("de", "Das Treffen ist am 6. März 2024.", "Termin: 05.03.24"),
    ("de", "Das Treffen ist am 3. Mai 2024.", "Termin: 05.03.2024"),
    ("en", "It closed on 4 March 2024.", "Opened 25/12/2023, closed 03/04/2024."),
    ("en", "It closed on 3 April 2024.", "Opened 12/25/2023, closed 03/04/2024."),
    ("fr", "Il ferma le 5 avril 2011.", "Fermé le 04/05/2011."),
    ("en", "Write to office@velmar.example.", "Write to info@velmar.example."),
    ("en", "See https://velmar.example/boats.", "See https://velmar.example/ferries."),
    ("en", "See https://velmar.example.", "Write to us."),
    ("en", "Write to info2@velmar.example.", "Write to info3@velmar.example."),
]


def checks(language: str, sentence: str, source: str) -> tuple[Check, ...]:
    cited = [CitedText(0, source, language)]
    return check_sentence(sentence, cited, language, prompt_texts=(source,))


@pytest.mark.parametrize(("language", "sentence", "source"), HOLDS)
def test_what_the_source_says_is_not_told(language: str, sentence: str, source: str) -> None:
    assert checks(language, sentence, source) == ()


@pytest.mark.parametrize(("language", "sentence", "source"), DIFFERS)
def test_what_the_source_does_not_say_is_told(language: str, sentence: str, source: str) -> None:
    assert len(checks(language, sentence, source)) == 1


@pytest.mark.parametrize(
    ("sentence", "source", "value", "source_value"),
    [
        ("The low was 5 °C.", "The low was −5 °C.", "5 °C", "−5 °C"),
        ("It opens at 8 am.", "It opens at 8 pm.", "8 am", "8 pm"),
        ("Write to a@x.example.", "Write to b@x.example.", "a@x.example", "b@x.example"),
        ("See https://x.example/a.", "See y.", "https://x.example/a", None),
    ],
)
def test_the_values_that_are_named(
    sentence: str, source: str, value: str, source_value: str | None
) -> None:
    (check,) = checks("en", sentence, source)
    assert (check.value, check.source_value) == (value, source_value)
