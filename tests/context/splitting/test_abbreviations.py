"""Full stops of abbreviated months and days, and before ordinal signs."""

import pytest

from attribot_rag.context.splitting.splitter import sentences


@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("es", ["El 9 ene. 1977 abrió la esclusa. ", "Es verde."]),
        ("fr", ["Le 9 déc. 1977, l'écluse ouvrit. ", "Elle est verte."]),
        ("fr", ["Le bal du sam. 9 juin 1977 fut annulé. ", "Il pleuvait."]),
        ("it", ["Il 9 sett. 1977 aprì la chiusa. ", "È verde."]),
        ("nl", ["Op 9 okt. 1977 ging de sluis open. ", "Hij is groen."]),
        ("pt", ["A 9 de fev. 1977 abriu a eclusa. ", "É verde."]),
        ("ru", ["Шлюз открыли 9 окт. 1977 года. ", "Он зелёный."]),
        ("tr", ["Kapak 9 Oca. 1977 günü açıldı. ", "Yeşildir."]),
        ("en", ["The fair on Sat. 9 June is off. ", "It rains."]),
        ("es", ["Es la 2.ª vez en el n.º 12 de la calle. ", "Es verde."]),
        ("it", ["Sta al n.° 12 della strada. ", "Ha porte verdi."]),
        ("pt", ["Mora no n.º 12 da rua. ", "É verde."]),
        ("fr", ["Le 1.ᵉʳ mai, elle ouvre. ", "Elle est verte."]),
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
    ],
)
def test_the_sentence_ends(language: str, pieces: list[str]) -> None:
    assert sentences("".join(pieces), language) == pieces
