"""Splits documents into sentences, paragraphs or the caller's pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import sentencex

from attribot_rag.context.splitting.blocks import TAG, blocks
from attribot_rag.context.text import Interval, at, merge
from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

Splitter = Callable[[str], Sequence[str]]

_MARK = re.compile(r"\s*(?:[-*+•‣◦▪>]|#{1,6}(?:\s+\d{1,3}[.)])?|\(?(?:\d{1,3}|[A-Za-z])[.)])\s*")
_PARAGRAPH = re.compile(r".+?(?:\n[ \t\r]*\n\s*|\Z)", re.DOTALL)


def sentences(text: str, language: str | None = None) -> list[str]:
    """The sentences of a text, in its language (ISO 639-1), which is detected by default.

    Headings, list items, rows of tables, records of logs, entries of YAML and members of JSON are
    not joined with the text around them. Rows and records are not split. The number or mark of an
    item belongs to its first sentence. A piece without letters or digits (a rule) belongs to the
    piece before it.
    """
    language = language or language_of(text)
    pieces: list[str] = []
    for block, (first, last) in blocks(text):
        ends = [first + end for end in _sentence_ends(block[first:last], language)[:-1]]
        for start, end in pairwise([0, *ends, len(block)]):
            piece = block[start:end]
            if pieces and (_belongs_to_last(piece) or _belongs_to_next(pieces[-1])):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def _belongs_to_last(piece: str) -> bool:
    return not _has_letters(piece) and not _MARK.fullmatch(piece)


def _belongs_to_next(piece: str) -> bool:
    """Whether a piece belongs to the next one: a number, a list mark, an opening bracket."""
    return _MARK.fullmatch(piece) is not None or not _has_letters(piece)


def _has_letters(piece: str) -> bool:
    return any(map(str.isalnum, TAG.sub("", piece)))


def paragraphs(text: str) -> list[str]:
    """Blocks of text between blank lines, with the blank lines after them."""
    return _PARAGRAPH.findall(text)


def make_splitter(unit: str | Splitter, language: str | None) -> Splitter:
    """The splitter for 'sentence', 'paragraph' or 'document', or the caller's own."""
    if callable(unit):
        return unit
    splitters: dict[str, Splitter] = {
        "sentence": lambda text: sentences(text, language),
        "paragraph": paragraphs,
        "document": lambda text: [text],
    }
    if not isinstance(unit, str) or unit not in splitters:
        raise InvalidInput(f"unknown source unit {unit!r}; choose one of {', '.join(splitters)}")
    return splitters[unit]


def split_spans(text: str, splitter: Splitter) -> list[Interval]:
    """Characters [start, end) of the pieces. Together they cover the text.

    A blank piece is joined with the piece before it. Raises InvalidInput if the pieces do not join
    to the text.
    """
    pieces = list(splitter(text))
    if not all(isinstance(piece, str) for piece in pieces) or "".join(pieces) != text:
        raise InvalidInput(
            f"the pieces of the splitter do not join to the text that begins {text[:40]!r}; a "
            "splitter must keep every character, spaces between sentences included"
        )
    spans: list[Interval] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        if spans and not (piece.strip() and text[slice(*spans[-1])].strip()):
            spans[-1] = (spans[-1][0], end)
        elif piece:
            spans.append((start, end))
        start = end
    return spans


_DEFAULT = "en"
# Below this, too many single sentences are detected as another language:
# see docs/evaluation/reliability.md.
_MIN_CONFIDENCE = 0.5
_MAX_LENGTH = 400


def check_language(code: object) -> None:
    """Raises InvalidInput for a code that has not the form of ISO 639-1 and is not known here.

    The splitter has more languages than are detected, such as `nb`, and does not list them.
    """
    has_form = isinstance(code, str) and re.fullmatch("[a-z]{2}", code)
    if not has_form and (code not in _identifier().nb_classes or code == "zxx"):
        raise InvalidInput(
            f"language={code!r} is not known; pass an ISO 639-1 code such as 'en', or None to have "
            "it detected"
        )


def language_of(text: str, further: Iterable[str] = ()) -> str:
    """The ISO 639 code of a text's language, detected from its beginning.

    If the text is too short, the first of the `further` texts that is long enough decides.
    Otherwise it is English.
    """
    detected = (_detected(candidate[:_MAX_LENGTH]) for candidate in (text, *further))
    return next(filter(None, detected), _DEFAULT)


@lru_cache(maxsize=4096)
def _detected(text: str) -> str | None:
    language, confidence = _identifier().classify(text)
    # zxx: code, figures and the like
    return language if confidence >= _MIN_CONFIDENCE and language != "zxx" else None


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


# Unpaired surrogates, which a broken text may contain and sentencex does not accept.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Quotation marks and brackets in a row; beyond so many, they are ignored.
_MAX_MARKS = 16
_RUN = re.compile(r"[\"'`´«»‹›„‚“”‘’「」『』()\[\]{}]{17,}")
_WINDOW = 8_192

_CLOSING = re.compile(r"[*_`\"”»)\]]+(?:\s+|\Z)|(?<=[。｡！？])[』」）】》〉”’]+\s*")
_OPENING = re.compile(r"(?<=\s)[\"'”“„»«‘‚]+\Z")
# Full stops of scripts in which they have no other meaning, with closing marks after them.
_STOP = re.compile(r"[。｡！？।॥؟۔።։។៕။]+[）】』」》〉)\]]*\s*")
_BRACKET = re.compile(r"[（【「『《〈(\[）】」』》〉)\]]")
_PAIRS = dict(zip("（【「『《〈([", "）】」』》〉)]", strict=True))
# A quotation that the sentence goes on after: "yes", he said.
_GOES_ON = re.compile(r"(?:と|って)")
# Languages that write "third" as "3.".
_ORDINALS = re.compile(r"bs|cs|da|de|et|eu|fi|fo|hr|hsb|hu|is|lb|lv|nb|nn|no|pl|se|sk|sl|sr|tr")
_ORDINAL = re.compile(r"(?<![\d.,/])(?<!\d-)\d{1,2}\.\s+\Z")
# A number or an abbreviation, if a lower-case letter comes next.
_SHORT = re.compile(r"(?:\d|(?<!\w)\w{1,4})\.\s+\Z")
# Titles before a name, in French, Spanish and Portuguese.
_TITLES = {"fr": "MM?|[Pp]rof|Mgr|Me", **dict.fromkeys(("es", "pt"), "[Ss]r(?:t?as?|es)?")}
# Abbreviations before the number of an article, a page, a figure, and so on.
_REFERENCE = re.compile(
    r"(?<!\w)(?:§§?|abb|abs|al|amend|anm|art|arts|ch|cf|cl|eq|ec|fig|figs|fn|kap|lit|nn?|nos?|nr|nrs"
    r"|núm|num|odst|pp?|p[áa]gs?|paras?|par|pkt|poz|reg|rn|sec|sect|ss?|str|subd|tab|tit|ust|vol|z"
    r"|ziff|č|čl|ч|гл|п|пп|рис|с|ст|стр|табл|т|άρθρ|αρ|αριθ|παρ|σελ|κεφ)\.\s*\Z",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d|(?!I\b)[IVXLC]+\b|[A-Z]\.\s?\d")
# Thai and Lao have no full stop: a space ends a sentence, or a part of one.
_SPACED = re.compile(r"(?<=[\u0e01-\u0eff])[”’\"»)]*[ \u00a0]+(?=[“‘\"«(]?[\u0e01-\u0eff])")
_SPACED_LETTER = re.compile("[\u0e01-\u0eff]")
_MIN_SPACED = 40


def _sentence_ends(text: str, language: str) -> list[int]:
    """The ends of sentences, ascending, by sentencex. The last is the end of the text.

    Some rules are added: full stops before a digit or a bracket, which end a sentence in Chinese or
    Hindi too; ordinals, dates and references such as "3. Mai", "3 janv. 1983", "n.º 7" and "Art.
    5"; Thai and Lao, whose sentences end in spaces. Closing quotation marks and mark-up belong to
    the sentence before them.
    """
    readable = _SURROGATE.sub("?", _RUN.sub(_without_marks, text))
    ends = {_with_closing(text, end) for end in _segmented(readable, language)}
    ends.update(
        stop for part in pairwise(sorted({0, *ends, len(text)})) for stop in _stops(text, *part)
    )
    ends = {end for end in ends if not _goes_on(text, end, language)}
    return sorted({*ends, *_spaces(text), len(text)} - {0})


def _segmented(text: str, language: str) -> Iterator[int]:
    """The ends of sentences by sentencex.

    Its time grows with the square of the text, so a long text is read in windows. Each window
    begins with the sentence that the one before did not finish.
    """
    start = 0
    while len(text) - start > _WINDOW:
        window = text[start : start + _WINDOW]
        ended = list(map(len, sentencex.segment(language, window)))[:-1]
        yield from (start + end for end in accumulate(ended))
        start += sum(ended) or _WINDOW
    last = map(len, sentencex.segment(language, text[start:]))
    yield from (start + end for end in accumulate(last))


def _without_marks(run: re.Match[str]) -> str:
    return run[0][:_MAX_MARKS] + "-" * (len(run[0]) - _MAX_MARKS)


def _with_closing(text: str, end: int) -> int:
    """Move an end past closing marks, or before an opening quotation mark."""
    closing = _CLOSING.match(text, end) if end and not text[end - 1].isspace() else None
    if closing:
        return closing.end()
    if text[end : end + 1].isalnum() and (opening := _OPENING.search(text, max(0, end - 4), end)):
        return opening.start()
    return end


def _goes_on(text: str, end: int, language: str) -> bool:
    """Whether the full stop before this end belongs to an abbreviation or a number."""
    has_dotted_ordinals = _ORDINALS.fullmatch(language) is not None
    if (
        _is_joined(text, end)
        or _is_within_date(text, end)
        or _is_within_citation(text, end, language)
    ):
        return True
    before, after = text[max(0, end - 16) : end], text[end : end + 2]
    if _SHORT.search(before) and after[:1].islower():
        return True
    if language in _TITLES and re.search(rf"(?<!\w)(?:{_TITLES[language]})\.\s+\Z", before):
        return True
    ordinal = _ORDINAL.search(before) if has_dotted_ordinals else None
    if ordinal and not _REFERENCE.search(before, 0, ordinal.start()):
        return after[:1].isalpha() and not _begins_sentence(text, end, language)
    if before.rstrip()[-1:] in ("」", "』", "）") and _GOES_ON.match(after):
        return True
    return _NUMBER.match(text, end) is not None and _REFERENCE.search(before) is not None


def _stops(text: str, start: int, end: int) -> Iterator[int]:
    """The ends of further sentences in [start, end): after full stops, outside of brackets."""
    stops = [stop.end() for stop in _STOP.finditer(text, start, end) if stop.end() < end]
    enclosed = merge(_enclosed(text, start, end)) if stops else []
    return (stop for stop in stops if not at(enclosed, stop))


def _enclosed(text: str, start: int, end: int) -> Iterator[Interval]:
    """The texts between brackets or quotation marks, with the closing mark."""
    opened: list[tuple[str, int]] = []
    for mark in _BRACKET.finditer(text, start, end):
        if mark[0] in _PAIRS:
            opened.append((_PAIRS[mark[0]], mark.end()))
        elif opened and opened[-1][0] == mark[0]:
            yield opened.pop()[1], mark.end()


def _spaces(text: str) -> Iterator[int]:
    """The spaces of Thai and Lao after a text that is long enough to be a sentence."""
    start = 0
    for space in _SPACED.finditer(text):
        if len(_SPACED_LETTER.findall(text, start, space.start())) >= _MIN_SPACED:
            start = space.end()
            yield start


_LONGEST = 40  # characters of a date
_LINK = r"(?:[^\W\d_]{1,3}\s)?"  # de, of
_DAY = r"(?<![\d.,])(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"[12]\d{3}(?!\w)"
_DAY_AND_MONTH = re.compile(rf"{_DAY}\.?\s{_LINK}[^\W\d_]{{2,5}}\.\s+\Z")
_SHORT_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,5}\.\s+\Z")
_WHOLE_YEAR = re.compile(_YEAR)
_LAST_YEAR = re.compile(rf"{_YEAR}(?=\s*(?:[.,;:)]|\Z))")


def _is_within_date(text: str, end: int) -> bool:
    """Whether the full stop before this end belongs to a month in a date.

    A month is a short word. It stands between a day and a year, or before a year that ends its
    clause.
    """
    first = max(0, end - _LONGEST)
    if _DAY_AND_MONTH.search(text, first, end) and _WHOLE_YEAR.match(text, end):
        return True
    return bool(_SHORT_WORD.search(text, first, end) and _LAST_YEAR.match(text, end))


def _is_joined(text: str, end: int) -> bool:
    """Whether a hyphen or a sign such as º stands right after a full stop: J.-C., n.º 7."""
    sign = text[end : end + 1]
    is_raised = sign.isalpha() and unicodedata.decomposition(sign).startswith("<super>")
    return text[end - 1 : end] == "." and (is_raised or sign in ("°", "-"))


# No library has the abbreviations of citations. A lower-case one may have a capital, too.
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


# Words that begin a sentence nevertheless.
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


def _is_within_citation(text: str, end: int, language: str) -> bool:
    """Whether the full stop before this end belongs to an abbreviation in a citation.

    As in 'Fed. R. Civ. P. 12', 'Az. I ZR 121/08' or 'Cass. civ. 1re', in English, German and
    French. But an article, a pronoun or a quotation begins a sentence there.
    """
    citing = _CITING_BEFORE.get(language)
    first = max(0, end - _LONGEST)
    is_cited = citing is not None and (
        citing.search(text, first, end) or _NO_WORD.search(text, first, end)
    )
    return bool(is_cited) and not _begins_sentence(text, end, language)


def _begins_sentence(text: str, start: int, language: str) -> bool:
    """Whether an article or the like with a capital, or a quotation mark, stands here."""
    beginning = _BEGINNING.get(language)
    return beginning is not None and beginning.match(text, start) is not None
