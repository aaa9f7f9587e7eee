"""The grammar of citation markers: labels of the prompt, in brackets or other signs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Context, Document
from attribot_rag.context.splitting.blocks import TAG
from attribot_rag.context.text import SYLLABLES, Interval

# Words for a label in brackets if the prompt has no word for it.
_CALLED = (
    r"(?:sources?|documents?|docs?|passages?|chunks?|contexts?|references?|refs?|citations?"
    r"|quellen?|fuentes?|fontes?|источники?|来源|來源|文档|文件|资料|引用|出典|資料)"
)
_IS_CALLED = re.compile(_CALLED, re.IGNORECASE)
_KEY = re.compile(r"[^\W\d]\w*[:=#]\s*")
_ID = re.compile(r"(?:ids?[.:：#\s]|(?<=\{\{)[^\W\d]\w*[:#])\s*", re.IGNORECASE)
_SEE = re.compile(r"see\s+", re.IGNORECASE)
_BEFORE_ITEM = re.compile(r"\s*(?:[-*•]\s+)?")
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"#?(?P<first>\d{1,3})(?:\s*[-–—]\s*(?P<last>\d{1,3}))?(?!\w)")
_AND = re.compile(r"\s*(?:[,;，；、&]|\band\b)\s*", re.IGNORECASE)
_SHORT_WORD = re.compile(r"\s+[^\W\d_]{1,3}\s+")  # "and" in the answer's language
_BETWEEN_LINES = re.compile(r"\s*[,;\n]\s*(?:[-*]\s+)?")
_BETWEEN_GROUPS = re.compile(r"[\s,;，；、]*")
# A place in the document, after its label: ", p. 3", " § 4", ", section 2.1", "，第3页".
_SYLLABLE = f"[{SYLLABLES}-\U0003ffff]"
_PLACE = re.compile(
    r"(?:(?:\s*[,，:]\s*|\s+)(?:[^\W\d_]+\.(?=\s|\d)|§+)\s*\w|\s*[,，:]\s*[^\W\d_]+\s+\d"
    rf"|(?:\s*[,，:]\s*{_SYLLABLE}*|{_SYLLABLE}+)\d+{_SYLLABLE})[\w.:–—-]*"
)
_COMMENT = re.compile(r"†[^\[\]】］〕\n]*")  # as in 【4†source】
_LINK = re.compile(r"\((?:<(?P<enclosed>[^<>\n]*)>|(?P<plain>[^()\s]*))(?:\s+\"[^\"\n]*\")?\)")
_LINKED = re.compile(r"\[(?P<text>(?:[^\[\]\n]|\[[^\[\]\n]*\])*)\](?=\()")
# Text before a link that is not part of a sentence: a bracket, a full stop, a mark of a line.
_APART = re.compile(r"(?:[(（\[]|[.!?。！？।][\"”’»)\]]*\s*|\n[\s>*+-]*)\Z")
_CLOSING = {
    **{"[": "]", "【": "】", "［": "］", "〔": "〕", "(": ")", "（": "）"},
    **{"\\[": "\\]", "{{": "}}"},
}
_ROUND = ("(", "（")
_IN_ROUND = re.compile(r"\([^()\n]*\)|（[^（）\n]*）")
_GOES_ON = re.compile(r"\s*\w")
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_RAISED_NUMBERS = re.compile(rf"[{_RAISED}]+(?:[,\s]*[{_RAISED}]+)*")
_POWER = re.compile(r"\d\s*[^\W\d_]*\Z|(?<!\w)\w{1,2}\Z|[)\]}\s]\Z")
_PRIVATE = "[\ue000-\uf8ff]"
_IN_PRIVATE = re.compile(rf"{_PRIVATE}(?:[^\s\ue000-\uf8ff]{{1,80}}{_PRIVATE})+")
_TAG = re.compile(r"<(?P<name>[a-z][\w.-]*)(?P<attributes>\s[^<>]*?)?(?P<empty>/?)>", re.IGNORECASE)
_CLOSING_TAG = re.compile(
    r"</(?P<name>[a-z][\w.-]*)(?:[:\s]\s*(?P<labels>[^<>]+))?>", re.IGNORECASE
)
_VALUE = re.compile(r"=\s*[\"']?([^\s\"'<>/]+)")
_CITING = ("sup", "cite")  # elements of HTML
# In parentheses, only a file's name, an id, or a text with its key is a label; words are not.
_CLEAR = re.compile(r"(?=.*[^\w\s-]|.*[\d_])\S+|.*: .*")
_CLEAR_NAME = re.compile(r"(?=.*\w[^\w\s-]\w|.*[\d_])\S{3,}")
_TOKEN = re.compile(r"[^\s,;，；、()\[\]{}【】［］〔〕（）<>|†]{4,80}")
_ELLIPSIS = re.compile(r"(?:…|\.{2,})\Z")
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"]+", re.IGNORECASE)
_SCHEME = re.compile(r"https?://(?:www\.)?", re.IGNORECASE)
_PIECE = re.compile(r"[^\W_A-Z]+|[A-Z][^\W_A-Z]*|[A-Z]+(?![a-z])")
_MAX_RANGE = 20
_MAX_ITEMS = 30
_MAX_NESTED = 3
_MAX_PLACES = 3
_MAX_BEFORE = 40
_MAX_ELEMENT = 1_000
_MAX_NAME = 200


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a prompt's documents, in lower case, each with its documents.

    A document without a number in the prompt has the number of its position, if that is free.
    Files, addresses and ids in the metadata are labels even if the prompt does not write them.
    `words` stand before numbers in the prompt, and `signs` around its labels. `are_written` says
    that the prompt writes labels, and `places` are numbers that it does not write.
    """

    documents: Mapping[str, tuple[int, ...]]
    words: frozenset[str] = frozenset()
    signs: frozenset[tuple[str, str]] = frozenset()
    are_written: bool = False
    places: frozenset[str] = frozenset()

    @classmethod
    def of(cls, context: Context) -> KnownLabels:
        labels = context.labels
        documents: dict[str, set[int]] = defaultdict(set)
        for document, texts in chain(
            labels.written.items(), *(names.items() for names in labels.names)
        ):
            for text in texts:
                documents[text.casefold()].add(document)
        are_written = bool(documents)
        places = {i: i + 1 for i in range(len(context.documents)) if i not in labels.numbers}
        for document, number in (*labels.numbers.items(), *places.items()):
            if document not in labels.written:
                documents.setdefault(str(number), {document})
        given: dict[str, set[int]] = defaultdict(set)
        for index, document_of in enumerate(context.documents):
            for name in filter(_is_file_or_id, names_of(document_of)):
                given[name.casefold()].add(index)
        documents = {**given, **documents}
        return cls(
            {label: (*sorted(indices),) for label, indices in documents.items()},
            labels.words,
            labels.signs,
            are_written,
            frozenset(map(str, places.values())),
        )

    def redefined(self, documents: Mapping[str, tuple[int, ...]]) -> KnownLabels:
        """With labels that the answer itself defines, such as footnotes.

        If all of them may be the prompt's, the prompt's meaning stays, because it names the chunk
        of a file.
        """
        are_same = all(
            label not in self.places and {*self.of_label(label)} & {*meant}
            for label, meant in documents.items()
        )
        return self if are_same else replace(self, documents={**self.documents, **documents})

    def of_label(self, label: str) -> tuple[int, ...]:
        """The indices of its documents."""
        return self.documents.get(label.casefold(), ())

    def has(self, label: str) -> bool:
        return bool(self.of_label(label))

    @property
    def grammar(self) -> _Grammar:
        return _grammar(frozenset(self.documents), self.words, self.signs)

    @cached_property
    def has_names(self) -> bool:
        return not all(map(is_number, self.documents))

    def is_called(self, name: str) -> bool:
        """Whether a key or a tag is named after documents: source_id, "citations", a prompt's."""
        pieces = _PIECE.findall(name)
        return any(_IS_CALLED.fullmatch(x) or x.casefold() in self.words for x in pieces)

    def is_count(self, name: str) -> bool:
        """Whether such a name may be a number of documents: num_sources, totalDocuments."""
        pieces = _PIECE.findall(name)
        return len(pieces) > 1 and pieces[-1].casefold().endswith("s")

    def of_address(self, address: str) -> str | None:
        """The label that is this address, without its scheme and the text after '#' or '?'."""
        bare = _bare(address)
        labels = (self._addresses.get(x) for x in (bare, bare.partition("?")[0]))
        return next(filter(None, labels), None)

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {_bare(x): x for x in sorted(self.documents, reverse=True) if not is_number(x)}

    def completed(self, beginning: str) -> str | None:
        """The only label without spaces that begins so; None if labels of several documents do."""
        begins = beginning.casefold()
        found = [x for x in self.documents if x.startswith(begins) and " " not in x]
        return found[0] if len({self.documents[x] for x in found}) == 1 else None


@dataclass(frozen=True)
class Candidate:
    """Characters [start, end) of an answer that may be a marker, or a part of one.

    `labels` are the labels in it, none if a range is too long. `is_called` says that a word in it,
    such as "source", makes it a marker. `is_clear` says that its labels are not ordinary words.
    `is_field` marks an element that stands alone, `is_raised` raised digits.
    """

    start: int
    end: int
    labels: tuple[str, ...]
    is_called: bool = False
    is_clear: bool = True
    is_field: bool = False
    is_raised: bool = False


@dataclass(frozen=True)
class WrittenMarker:
    """Characters [start, end) of an answer, with their mark-up, that cite documents by `labels`.

    `documents` are the indices of the documents of each label. It belongs to the first of `scopes`
    that states something; without scopes, to its sentence.
    """

    start: int
    end: int
    labels: tuple[str, ...]
    documents: tuple[tuple[int, ...], ...] = ()
    scopes: tuple[Interval, ...] = ()

    @property
    def span(self) -> Interval:
        return self.start, self.end


def names_of(document: Document) -> tuple[str, ...]:
    """The names in its metadata: its title or file, also without folders, and its id."""
    title = document.title.strip()
    names = title, re.split(r"[/\\]", title)[-1], str(document.id or "").strip()
    return (*dict.fromkeys(filter(None, names)),)


def _is_file_or_id(name: str) -> bool:
    """Whether a name is neither ordinary words nor only a number."""
    is_short = len(name) <= _MAX_NAME and not name.isspace()
    return is_short and any(map(str.isalpha, name)) and bool(_CLEAR_NAME.fullmatch(name))


def is_number(label: str) -> bool:
    return label.isdecimal() and len(label) <= 3


def is_power(text: str, start: int) -> bool:
    """Whether raised digits here follow a number, a unit or the name of a variable."""
    return not start or _POWER.search(text, max(0, start - _MAX_BEFORE), start) is not None


def private_signs(text: str) -> list[Interval]:
    """Text between private-use characters, which some models write as markers."""
    return [match.span() for match in _IN_PRIVATE.finditer(text)]


def labels_in(text: str, known: KnownLabels) -> tuple[str, ...]:
    """The labels that make up a text, perhaps in brackets; empty for any other text."""
    bracketed = f"[{text.strip()}]"
    found = next(candidates(bracketed, known), None)
    return found.labels if found and found.end == len(bracketed) else ()


def called_label(text: str, known: KnownLabels) -> Candidate | None:
    """The label at the beginning of a text if it is called a source, as in "Source 2: a guide"."""
    item = _Reader(text, known).item(0)
    return item if item and item.is_called else None


def name_in(text: str, known: KnownLabels) -> str | None:
    """The first label in a text that is not ordinary words: an address, a file's name, an id."""
    names = (match[0] for match in known.grammar.name.finditer(text))
    address = next(filter(None, map(known.of_address, _ADDRESS.findall(text))), None)
    return address or next(filter(_CLEAR.fullmatch, names), None)


def candidates(response: str, known: KnownLabels) -> Iterator[Candidate]:
    """Candidates for markers in a response, in order."""
    done = 0
    reader = _Reader(response, known)
    for opening in known.grammar.opening.finditer(response):
        if opening.start() < done:
            continue
        found = reader.at(opening.start(), opening[0])
        if found is not None:
            yield found
            if found.is_called or any(map(known.has, found.labels)):
                done = found.end


@dataclass(frozen=True)
class _Grammar:
    """Patterns for one prompt: its labels and words, and the brackets in use."""

    opening: re.Pattern[str]
    name: re.Pattern[str]
    word: re.Pattern[str]
    closing: Mapping[str, str]
    in_round: bool


@lru_cache(maxsize=16)
def _grammar(
    labels: frozenset[str], words: frozenset[str], signs: frozenset[tuple[str, str]]
) -> _Grammar:
    closing = {**dict(sorted(signs)), **_CLOSING}
    names = {label for label in labels if not is_number(label)}
    if any("://" in name for name in names):
        closing["<"] = ">"
    return _Grammar(
        re.compile(rf"{_any_of(closing)}|</?(?=[a-z])|[{_RAISED}]|{_PRIVATE}", re.IGNORECASE),
        re.compile(rf"{_any_of(names)}(?!\w)", re.IGNORECASE),
        re.compile(rf"(?:{_any_of(words)}|{_CALLED})[.:：#\s_-]*", re.IGNORECASE),
        closing,
        any(before in _ROUND for before, _ in signs),
    )


def _any_of(texts: Iterable[str]) -> str:
    """A pattern of texts, the longest first. Without texts, it matches nothing."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    patterns = (r"\s+".join(map(re.escape, text.split())) for text in ordered)
    return rf"(?:{'|'.join(patterns) or '(?!)'})"


def _bare(address: str) -> str:
    return _SCHEME.sub("", address.casefold()).partition("#")[0].rstrip("/")


class _Reader:
    """Reads the marker at a place of a response. Returns None if there is none."""

    def __init__(self, text: str, known: KnownLabels) -> None:
        self._text = text
        self._known = known
        self._grammar = known.grammar

    def at(self, start: int, sign: str) -> Candidate | None:
        """The marker that this sign opens."""
        if sign in ("<", "</"):
            group = self._group(start, sign) if sign in self._grammar.closing else None
            return group or self._element(start) or self._closing_tag(start)
        if sign in _RAISED:
            return self._raised(start)
        if found := _IN_PRIVATE.match(self._text, start):
            return self._in_private(found)
        if sign not in self._grammar.closing:
            return None
        return self._linked(start) or self._group(start, sign)

    def _linked(self, start: int) -> Candidate | None:
        """A link to an address that is a label.

        If the link's text is part of the sentence, the marker is only what follows it.
        """
        linked = _LINKED.match(self._text, start)
        link = _LINK.match(self._text, linked.end()) if linked else None
        address = (link["enclosed"] or link["plain"] or "") if link else ""
        label = self._known.of_address(address)
        if linked is None or link is None or label is None:
            return None
        text = linked["text"].strip(" *_`")
        says_nothing = (
            labels_in(text, self._known)
            or not any(map(str.isalpha, text))
            or self._known.is_called(text)
            or text.casefold() in {*_bare(address).split("/"), _bare(address)}
            or self._text.count(f"[{linked['text']}](") > 1
            or _APART.search(self._text, max(0, start - _MAX_BEFORE), start)
        )
        return Candidate(start if says_nothing else linked.end() - 1, link.end(), (label,), True)

    def _group(self, start: int, sign: str, depth: int = 1) -> Candidate | None:
        """Labels, or groups of them, between brackets."""
        text, is_round = self._text, sign in _ROUND
        place = start + len(sign) + text.startswith("^", start + len(sign))
        place = self._after(_SEE, place) if is_round else place
        if (items := self._items(place, self._grammar.closing[sign], depth)) is None:
            return None
        end = items.end
        if is_round and not items.is_called:
            if not items.is_clear or _GOES_ON.match(text, end):
                return None
        elif sign == "[":
            end = self._after(_LINK, end)
        return replace(items, start=start, end=end)

    def _items(self, place: int, closing: str, depth: int = 1) -> Candidate | None:
        """All labels up to a closing sign, which counts as part of them.

        They are clear if the first one is.
        """
        items: list[Candidate] = []
        while len(items) < _MAX_ITEMS:
            nested = self._nested(place, depth)
            item = nested or self.item(place)
            if item is None:
                return None
            items.append(item)
            place = self._after(_COMMENT, item.end)
            stop = self._after(_SPACE, place)
            if self._text.startswith(closing, stop):
                end = stop + len(closing)
                labels = tuple(chain.from_iterable(each.labels for each in items))
                is_called = place > item.end or any(each.is_called for each in items)
                return Candidate(items[0].start, end, labels, is_called, items[0].is_clear)
            among = _BETWEEN_LINES if closing.startswith("</") else _AND
            between = (_BETWEEN_GROUPS if nested else among).match(self._text, place)
            if between is None and self._known.are_written:
                between = _SHORT_WORD.match(self._text, place)
            if between is None:
                return None
            place = between.end()
        return None

    def _nested(self, place: int, depth: int) -> Candidate | None:
        """A group in a group, such as ([1], [3]) or [Document [3]]."""
        after = self._after(self._grammar.word, place)
        sign = self._grammar.opening.match(self._text, after)
        if depth == _MAX_NESTED or sign is None or sign[0] not in self._grammar.closing:
            return None
        group = self._linked(after) or self._group(after, sign[0], depth + 1)
        is_called = after > place
        return group and replace(group, is_called=is_called or group.is_called, is_clear=True)

    def _after(self, pattern: re.Pattern[str], place: int) -> int:
        """The place after a match of the pattern, or this place."""
        match = pattern.match(self._text, place)
        return match.end() if match else place

    def item(self, place: int) -> Candidate | None:
        """A label, with the word before it and its places."""
        found = self._name(place)
        after = self._after(self._grammar.word, place)
        if found is None and after > place:
            found = self._name(after) or self._number(after)
            found = found and replace(found, is_called=True, is_clear=True)
        if found is None and (key := _KEY.match(self._text, place)):
            found = self._name(key.end())
        if found is None and (number := _ID.match(self._text, place)):
            found = self._number(number.end())
        found = found or self._number(place) or self._token(place)
        return found and replace(found, end=self._after_places(found.end))

    def _name(self, place: int) -> Candidate | None:
        name = self._grammar.name.match(self._text, place)
        if name is None:
            return None
        is_clear = self._grammar.in_round or _CLEAR.fullmatch(name[0]) is not None
        return Candidate(*name.span(), (" ".join(name[0].split()),), is_clear=is_clear)

    def _number(self, place: int) -> Candidate | None:
        """A number or a range; without labels if it is too long, or belongs to no documents."""
        number = _NUMBER.match(self._text, place)
        if number is None:
            return None
        first, last = int(number["first"]), int(number["last"] or number["first"])
        numbers = range(first, last + 1) if first <= last <= first + _MAX_RANGE else ()
        labels = (*map(str, numbers),)
        is_range = len(labels) < 2 or all(map(self._known.has, labels))
        is_clear = self._grammar.in_round
        return Candidate(*number.span(), labels if is_range else (), is_clear=is_clear)

    def _token(self, place: int) -> Candidate | None:
        """The beginning of an id, or a text that looks like a label of this prompt but is none."""
        token = _TOKEN.match(self._text, place)
        if token is None or not self._known.has_names:
            return None
        text = _ELLIPSIS.sub("", token[0])
        is_clear = _CLEAR.fullmatch(text) is not None
        label = self._known.completed(text)
        if label is not None and (is_clear or 2 * len(text) >= len(label)):
            return Candidate(*token.span(), (label,), is_clear=is_clear)
        is_alike = is_clear and any(map(str.isalpha, text))
        return Candidate(*token.span(), (text,), is_clear=False) if is_alike else None

    def _after_places(self, end: int) -> int:
        for _ in range(_MAX_PLACES):
            after, place = self._after(_AND, end), self._after(_PLACE, end)
            is_word = self._after(self._grammar.word, after) > after
            if place == end or (after > end and (is_word or self._name(after))):
                break
            end = place
        return end

    def _raised(self, start: int) -> Candidate | None:
        """Raised digits. After a number, a unit or a short name, they are a power.

        Digits without a gap are one number if a document has it.
        """
        numbers = _RAISED_NUMBERS.match(self._text, start)
        if numbers is None or is_power(self._text, start):
            return None
        labels: list[str] = []
        for digits in re.findall(rf"[{_RAISED}]+", numbers[0]):
            number = "".join(str(_RAISED.index(digit)) for digit in digits)
            labels += [number] if self._known.has(number) else [*number]
        return Candidate(start, numbers.end(), tuple(labels), is_raised=True)

    def _in_private(self, found: re.Match[str]) -> Candidate:
        """Text between private-use characters, which some models write as markers."""
        pieces = re.split(_PRIVATE, found[0])
        labels = [piece for piece in pieces if self._known.has(piece)]
        labels = labels or [piece for piece in pieces if _CLEAR.fullmatch(piece)][:1]
        return Candidate(*found.span(), tuple(labels), True)

    def _element(self, start: int) -> Candidate | None:
        """An element with only labels: <sup>2</sup>, <ref>2</ref>, <source_id>2</source_id>.

        HTML's own elements show text. An element that stands alone is a field of the answer, and
        its name must say that it has labels. An empty element has labels in its attributes.
        """
        tag = _TAG.match(self._text, start)
        if tag is None:
            return None
        if tag["empty"]:
            labels = self._labels_in(tag["name"], tag["attributes"])
            return Candidate(start, tag.end(), labels) if labels else None
        is_called = self._known.is_called(tag["name"])
        before = self._text[:start].rpartition("\n")[2].rstrip()
        is_field = not before or before.endswith(">")
        if not is_called and (self._is_html(tag["name"]) or is_field):
            return None
        place, closing = self._after(_BEFORE_ITEM, tag.end()), f"</{tag['name']}>"
        in_round = _IN_ROUND.match(self._text, place)
        if in_round and self._text.startswith(closing, in_round.end()):
            items = self._items(place + 1, in_round[0][-1] + closing)
        else:
            items = self._items(place, closing)
        return items and replace(items, start=start, is_called=is_called, is_field=is_field)

    def _closing_tag(self, start: int) -> Candidate | None:
        """The end of an element whose tag has labels: <co: 1> </co: 1>, <cite id="2"> </cite>."""
        tag = _CLOSING_TAG.match(self._text, start)
        if tag is None:
            return None
        before = self._text[max(0, start - _MAX_ELEMENT) : start]
        if tag["labels"]:
            items = self._items(tag.start("labels"), ">")
            is_opened = tag[0].replace("/", "", 1) in before
            return replace(items, start=start, is_called=True) if items and is_opened else None
        opened = _TAG.match(before, max(0, before.rfind(f"<{tag['name']} ")))
        labels = self._labels_in(tag["name"], opened["attributes"]) if opened else ()
        return Candidate(start, tag.end(), labels) if labels else None

    def _labels_in(self, name: str, attributes: str | None) -> tuple[str, ...]:
        if self._is_html(name) or not attributes:
            return ()
        return tuple(filter(self._known.has, _VALUE.findall(attributes)))

    def _is_html(self, name: str) -> bool:
        """Whether HTML has an element of this name that does not cite."""
        return name.lower() not in _CITING and TAG.match(f"<{name}>") is not None
