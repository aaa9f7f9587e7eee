"""Full stops of abbreviations: of months, of citations, before ordinal signs."""

from itertools import accumulate
from pathlib import Path

import pytest

from attribot_rag.context.splitting.splitter import sentences


@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("es", ["El 9 ene. 1977 abrió la esclusa. ", "Es verde."]),
        ("fr", ["Le 9 déc. 1977, l'écluse ouvrit. ", "Elle est verte."]),
        ("it", ["Il 9 sett. 1977 aprì la chiusa. ", "È verde."]),
        ("nl", ["Op 9 okt. 1977 ging de sluis open. ", "Hij is groen."]),
        ("pt", ["A 9 de fev. 1977 abriu a eclusa. ", "É verde."]),
        ("ru", ["Шлюз открыли 9 окт. 1977 года. ", "Он зелёный."]),
        ("tr", ["Kapak 9 Oca. 1977 günü açıldı. ", "Yeşildir."]),
        ("es", ["Es la 2.ª vez en el n.º 12 de la calle. ", "Es verde."]),
        ("it", ["Sta al n.° 12 della strada. ", "Ha porte verdi."]),
        ("pt", ["Mora no n.º 12 da rua. ", "É verde."]),
        ("fr", ["Le 1.ᵉʳ mai, elle ouvre. ", "Elle est verte."]),
        ("fr", ["La cité naît en 512 av. J.-C. dans l'île. ", "Elle dure."]),
        ("en", ["The rule is in Fed. R. Civ. P. 12(b)(6). ", "It was amended in 2007."]),
        ("en", ["Under Cal. Civ. Code § 1950.5, it is due. ", "Landlords must pay."]),
        ("de", ["Vgl. BGH, Urt. v. 12. Mai 2010, Az. I ZR 121/08. ", "Das gilt auch hier."]),
        ("de", ["So Kühling, JZ 2012, S. 34. ", "Anders Roth im BGBl. I S. 9."]),
        ("fr", ["V. Cass. civ. 1re, 12 mai 2010, art. L. 121-1. ", "La faute est prouvée."]),
    ],
)
def test_the_sentence_goes_on(language: str, pieces: list[str]) -> None:
    assert sentences("".join(pieces), language) == pieces


@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("fr", ["Ils vont à la mer. ", "5 personnes nagent."]),
        ("pt", ["Foram ao mar. ", "12 pessoas nadaram."]),
        ("nl", ["Het is mei. ", "12 mensen kwamen."]),
        ("fr", ["Il est venu en déc. ", "Paris dormait."]),
        ("xx", ["The fair is green. ", "12 people came."]),
        ("fr", ["Le bac mesure 40 m. ", "12 personnes vinrent."]),
        ("en", ["He went to law school in Cal. ", "The town was small."]),
        ("de", ["Er ist sehr alt. ", "Paul kam."]),
        ("de", ["Das steht in Abs. 3. ", "Die Frist läuft."]),
    ],
)
def test_the_sentence_ends(language: str, pieces: list[str]) -> None:
    assert sentences("".join(pieces), language) == pieces


CITATIONS = [
    line.split("\t")
    for line in Path(__file__).with_name("citations.tsv").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    ("language", "half", "most_wrong"),
    [
        ("de", "calibration", 0),
        ("de", "held_out", 4),
        ("en", "calibration", 0),
        ("en", "held_out", 2),
        ("fr", "calibration", 1),
        ("fr", "held_out", 4),
    ],
)
def test_the_borders_of_texts_with_citations(language: str, half: str, most_wrong: int) -> None:
    wrong = 0
    for pieces in (
        text.split("|") for code, part, text in CITATIONS if (code, part) == (language, half)
    ):
        spaced = [f"{piece} " for piece in pieces]
        ends, given = (
            {*accumulate(map(len, parts))}
            for parts in (spaced, sentences("".join(spaced), language))
        )
        wrong += len(ends ^ given)
    assert wrong <= most_wrong
