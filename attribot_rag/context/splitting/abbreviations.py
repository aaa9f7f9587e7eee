"""Full stops within dates: after abbreviated months and days of the week."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_LONGEST = 40  # characters of a date
_LINK = r"(?:[^\W\d_]{1,3}\s)?"  # de, of
_DAY = r"(?<![\d.,])(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"[12]\d{3}(?!\w)"
_DAY_AND_MONTH = re.compile(rf"{_DAY}\.?\s{_LINK}[^\W\d_]{{2,5}}\.\s+\Z")
_SHORT = re.compile(r"(?<!\w)[^\W\d_]{2,5}\.\s+\Z")
_WEEKDAY = re.compile(r"(?:\A|(?P<before>\S)\s+)(?P<word>[^\W\d_]{2,3})\.\s+\Z")
_WHOLE_YEAR = re.compile(_YEAR)
_LAST_YEAR = re.compile(rf"{_YEAR}(?=\s*(?:[.,;:)]|\Z))")
_DATE = re.compile(
    rf"\d{{1,2}}(?P<sign>\.|er|º)?\s{_LINK}(?P<month>[^\W\d_]+)\.?(?P<year>\s{_LINK}{_YEAR})?"
)


def is_within_date(text: str, end: int, *, has_dotted_ordinals: bool) -> bool:
    """Whether the full stop before this end belongs to a month or weekday in a date.

    Such words are short. A month stands between a day and a year, or before a year that ends its
    clause; a day of the week before a day, a month and a year, or, where both names are written
    with a capital, before a day and a month. `has_dotted_ordinals` says whether the language writes
    the third as "3.".
    """
    if not text[end : end + 1].isdigit():
        return False
    first = max(0, end - _LONGEST)
    if _DAY_AND_MONTH.search(text, first, end) and _WHOLE_YEAR.match(text, end):
        return True
    if _SHORT.search(text, first, end) and _LAST_YEAR.match(text, end):
        return True
    weekday = _WEEKDAY.search(text, first, end)
    date = _DATE.match(text, end, end + _LONGEST) if weekday else None
    if weekday is None or date is None:
        return False
    has_day = bool(date["sign"]) or not has_dotted_ordinals
    return has_day and (date["year"] is not None or _are_names(weekday, date["month"]))


def _are_names(weekday: re.Match[str], month: str) -> bool:
    """Whether both have a capital, the first within its sentence."""
    before = weekday["before"] or ","
    return weekday["word"].istitle() and month.istitle() and (before == "," or before.islower())


def is_joined(text: str, end: int) -> bool:
    """Whether a hyphen or a sign such as º stands right after a full stop: J.-C., n.º 7."""
    sign = text[end : end + 1]
    is_raised = sign.isalpha() and unicodedata.decomposition(sign).startswith("<super>")
    return text[end - 1 : end] == "." and (is_raised or sign in ("°", "-"))


# No library has the abbreviations of citations. Those in lower case may have a capital, too.
_CITING = {
    "de": (
        "Abl Abs Abschn Ag Alt Angekl Anh Anl Anm Ast Aufl Ausf Ausn Az BGBl BStBl Bd Begr Bek"
        " Bekl Besch Beschl Buchst Drs Ebd Einl Entsch Erl Fn Grundl Halbs Hr Hrsg Hs Kl Komm"
        " Lit Nr Prot Randnr Randziff Rdnr Richtl Rn Rs Rspr Rz Schr Slg Sp Str Teilurt Tz UAbs"
        " Unterabs Urt Var Verf Vorb Vorbem Vorschr Widerspr Ziff abl ausf ebd gem ggf grundl"
        " insb insbes krit lit lt verb vgl zit zust"
    ),
    "en": (
        "Admin Ala Amend Ann App Ariz Ark Atl Bankr Bd Bros Bus Cal Cas Ch Cir Civ Cl Cmt Colo"
        " Colum Comp Cong Conn Const Corp Crim Ct Def Del Dep Dict Dist Div Educ Elec Emp Evid"
        " Exh Fam Fed Fla Ga Gen Gov Harv Haw Ill Ind Ins Kan Ky Lab Legis Mass Md Mich Minn"
        " Mont Mun Neb Nev Nw Okla Op Ore Pa Pac Para Pl Prac Prob Proc Prof Prot Pt Pub Rec Reg"
        " Regs Rep Resp Rev Rul Sec Sess Stat Subd Subsec Sup Super Supp Tenn Tex Tit Tr Treas"
        " Unif Util Va Veh Vt Wash Welf Wis Wyo"
    ),
    "fr": (
        "D L R aff al arr ass bull cass ch chron circ civ com comm comp concl cons consom const"
        " constr conv corr crim décr égal fasc fig gaz instr loc mél mod monét not obs op ord"
        " pal pén plén pl préc proc prop pt rapp rec réf req rép réun rur sect soc spéc suppl"
        " tab trav trib univ urb éd"
    ),
}


def _in_cases(words: str) -> Iterator[str]:
    for word in words.split():
        yield word
        if word.islower():
            yield word.capitalize()


# What begins a sentence nevertheless.
_BEGINNINGS = {
    "de": (
        "Aber Alle Als Am An Auch Auf Aus Bei Beide Da Daher Damit Danach Dann Darauf Darin Das Dem"
        " Den Denn Der Des Die Dies Diese Diesem Diesen Dieser Dieses Doch Dort Ein Eine Einem"
        " Einen Einer Er Es Für Hier Ich Ihr Ihre Im In Jede Jeder Kein Keine Man Mit Nach Nicht"
        " Niemand Nur Ob Oder Sein Seine Sie So Und Unter Vom Von Vor Wenn Wer Wie Wir Zu Zum Zur"
    ),
    "en": (
        "A After All An And As At Both But Each For He Her Here His How However If In It Its Let"
        " Many Most No Nobody Not On One Our She Since So Some That The Their Then There These They"
        " This Those To We What When Where Which While Who Why Yes You"
    ),
    "fr": (
        "Au Aucun Aucune Aussi Aux Car Ce Cela Celui Ces Cet Cette Comme Dans De Des Du Elle Elles"
        " En Et Il Ils Je La Le Les Leur Leurs Mais Nous On Or Ou Par Pour Puis Sa Selon Ses Si Son"
        " Sur Tous Tout Toute Un Une Vous"
    ),
}
_CITING_BEFORE = {
    language: re.compile(rf"(?<![\w.])(?:{'|'.join(_in_cases(words))})\.\s+\Z")
    for language, words in _CITING.items()
}
_BEGINNING = {
    language: re.compile(rf"(?:{'|'.join(words.split())})(?![\w.])|(?:[CLD]|Qu)['’]|[\"“„«‘‚]")
    for language, words in _BEGINNINGS.items()
}
# Letters without a vowel are no word: Hs., Bd., Rptr.
_NO_WORD = re.compile(r"(?<![\w.])[B-DF-HJ-NP-TV-Z][b-df-hj-np-tv-xz]{1,4}\.\s+\Z")


def is_within_citation(text: str, end: int, language: str) -> bool:
    """Whether the full stop before this end belongs to an abbreviation as citations have it.

    As in 'Fed. R. Civ. P. 12', 'Az. I ZR 121/08' or 'Cass. civ. 1re'; in English, German and
    French, unless an article, a pronoun or a quotation begins a sentence there.
    """
    citing = _CITING_BEFORE.get(language)
    first = max(0, end - _LONGEST)
    is_cited = citing is not None and (
        citing.search(text, first, end) or _NO_WORD.search(text, first, end)
    )
    return bool(is_cited) and not begins_sentence(text, end, language)


def begins_sentence(text: str, start: int, language: str) -> bool:
    """Whether an article or the like with a capital, or a quotation mark, stands at this place."""
    beginning = _BEGINNING.get(language)
    return beginning is not None and beginning.match(text, start) is not None
