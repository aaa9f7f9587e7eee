"""The part of the prompt, besides documents, that states a sentence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation, Context
from attribot_rag.context.context import PromptPart
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.context.text import Interval, has_words, merge, same_word, subtract, words
from attribot_rag.methods.base import Part, TokenScores, parts_of, total
from attribot_rag.methods.limits import Limits
from attribot_rag.result import ResponseText

if TYPE_CHECKING:
    from attribot_rag.methods.evidence import Steps
    from attribot_rag.scoring import Request, Scorer

_QUESTION_MARKS = ("?", "？", "؟")
_COLON = re.compile(r"[:：]\s")
_REQUEST_WORDS = 3
_STATEMENT_WORDS = 2
_ALIKE = 3


@dataclass(frozen=True)
class PromptOrigin:
    """The part of the prompt that states a sentence.

    `effect` is the sentence's loss without all statements with its words, in nats.
    """

    part: PromptPart
    effect: float


@dataclass(frozen=True)
class _Piece:
    """A sentence or line of a part of the prompt."""

    part: PromptPart
    span: Interval
    text: str

    @property
    def asks(self) -> bool:
        return self.text.rstrip().endswith(_QUESTION_MARKS)

    def holds(self, word: str) -> bool:
        """Whether the word stands in it, perhaps with another ending; a number, as it is.

        Of a run of a script without spaces, most characters.
        """
        own = words(word)
        if word[0].isdigit():
            return all(each in self._alike.get(each[:_ALIKE], ()) for each in own)
        alike = ((each, self._alike.get(each[:_ALIKE], ())) for each in own)
        held = sum(any(same_word(each, other) for other in others) for each, others in alike)
        return 2 * held > len(own)

    @cached_property
    def _alike(self) -> dict[str, list[str]]:
        """The words of the piece, grouped by their first letters."""
        alike: dict[str, list[str]] = {}
        for word in words(self.text.casefold()):
            alike.setdefault(word[:_ALIKE], []).append(word)
        return alike


@dataclass(frozen=True)
class Word:
    """A content word of a sentence, absent from the question, with its log-likelihoods.

    `after` and `without`: after the prompt without documents, with and without what holds the word.
    """

    after: float
    without: float
    is_held: bool
    is_figure: bool = False
    is_name: bool = False

    @property
    def gain(self) -> float:
        """The worth of the statements to it, in nats."""
        return self.after - self.without

    @property
    def unlikely_by(self) -> float:
        """The negative log-likelihood of the word, with or without the statements, in nats."""
        return -min(self.after, self.without)


class PromptPieces:
    """The sentences and lines of a prompt besides its documents: what is asked, and statements.

    `boundary_ids` are those of the tokens that a chat template puts between messages.
    """

    def __init__(self, context: Context, boundary_ids: Collection[int] = ()) -> None:
        self._context = context
        self._boundary_ids = boundary_ids

    @cached_property
    def _pieces(self) -> list[_Piece]:
        """All parts of the prompt, cut into sentences and lines, without special tokens."""
        context, prompt, boundary_ids = self._context, self._context.prompt, self._boundary_ids
        ids = zip(prompt.spans, prompt.ids, strict=True)
        marks = merge(span for span, token_id in ids if token_id in boundary_ids)
        splitter = make_splitter("sentence", context.language)
        return [
            _Piece(part, (start + first, start + last), prompt.text[start + first : start + last])
            for part, spans in context.parts.items()
            for span in spans
            for begin, end in subtract(span, marks)
            for start in [_after_role(prompt.text, begin, end)]
            for first, last in split_spans(prompt.text[start:end], splitter)
        ]

    @cached_property
    def requests(self) -> list[_Piece]:
        """The question: the last long sentence if none ends with a question mark.

        Where the last message asks nothing, as with what an agent's tool returned, the last
        question of the turns before it; then what stands before the documents.
        """
        long = [piece for piece in self._pieces if has_words(piece.text, _REQUEST_WORDS)]
        asked = [piece for piece in long if piece.part == "question"]
        asked = asked or [piece for piece in long if piece.part == "turn" and piece.asks][-1:]
        asked = asked or [piece for piece in long if piece.part == "instructions"]
        return [piece for piece in asked if piece.asks] or asked[-1:]

    @cached_property
    def question(self) -> str:
        """What is asked, in the words of the prompt."""
        return "\n".join(piece.text for piece in self.requests)

    @property
    def asked(self) -> str:
        """What is asked, without what the prompt's template says before a colon.

        Such as 'Question:', or 'Answer in one sentence:'.
        """
        begins = {start for start, _ in self._context.message}
        return "\n".join(
            piece.text if piece.span[0] in begins else _after_colon(piece.text)
            for piece in self.requests
        )

    @cached_property
    def statements(self) -> list[_Piece]:
        return [
            piece
            for piece in self._pieces
            if has_words(piece.text, _STATEMENT_WORDS)
            and not piece.asks
            and piece not in self.requests
        ]


class PromptOrigins:
    """Finds the part of the prompt that states a sentence.

    Documents are left out, as for other origins. A question makes any answer likely that speaks of
    its topic: what it asks, and so its words, count for nothing.
    """

    def __init__(self, scorer: Scorer, response: ResponseText, limits: Limits) -> None:
        self._scorer = scorer
        self._prompt = PromptPieces(scorer.context, scorer.language_model.boundary_ids)
        self._response = response
        self._limits = limits

    def may_state(self, tokens: Sequence[int]) -> bool:
        """Whether a statement of the prompt holds a content word of the sentence."""
        return bool(self._statements_for(tokens))

    def find(self, tokens: Sequence[int], reliance: float) -> Steps[PromptOrigin | None]:
        """Find the origin of the sentence with these tokens; None beyond the budget.

        Its effect is at least the reliance on the context.
        """
        statements = self._statements_for(tokens)
        if not statements:
            return None
        rows = self._without_each(statements)
        whole, all_gone = self._without([]), self._without(statements)
        yield [whole, all_gone, *(rows.values() if self._scorer.num_spare else ())]
        after, without = self._scorer.likely(whole), self._scorer.likely(all_gone)
        if after is None or without is None:
            return None
        effect = total(after, tokens) - total(without, tokens)
        words_said = list(self._words(tokens, statements, after, without))
        if effect < reliance or not is_stated(words_said, self._limits):
            return None
        yield [*rows.values()]
        effects = {}
        for part, request in rows.items():
            row = self._scorer.likely(request)
            effects[part] = 0.0 if row is None else total(after, tokens) - total(row, tokens)
        part = max(effects, key=lambda name: effects[name])
        return PromptOrigin(part, effect)

    def _statements_for(self, tokens: Sequence[int]) -> list[_Piece]:
        texts = self._part(tokens).texts
        return [piece for piece in self._prompt.statements if any(map(piece.holds, texts))]

    def _words(
        self,
        tokens: Sequence[int],
        statements: Sequence[_Piece],
        after: TokenScores,
        without: TokenScores,
    ) -> Iterator[Word]:
        part, spans = self._part(tokens), self._response.token_spans
        for text, own in zip(part.texts, part.words, strict=True):
            written = self._response.text[spans[own[0]][0] : spans[own[-1]][1]].strip()
            yield Word(
                total(after, own),
                total(without, own),
                is_held=any(piece.holds(text) for piece in statements),
                is_figure=text[0].isdigit(),
                is_name=own[0] != tokens[0] and written[:1].isupper(),
            )

    def _part(self, tokens: Sequence[int]) -> Part:
        """The sentence with its content words."""
        response = self._response
        (part,) = parts_of([tokens], response.text, response.tokens_in, self._prompt.question)
        return part

    def _without(self, pieces: Sequence[_Piece]) -> Request:
        """The row without documents and these pieces."""
        removed = Ablation(characters=tuple(piece.span for piece in pieces))
        return self._scorer.context.whole | removed, None

    def _without_each(self, pieces: Sequence[_Piece]) -> dict[PromptPart, Request]:
        """The rows without the pieces of each part."""
        parts = dict.fromkeys(piece.part for piece in pieces)
        return {part: self._without([p for p in pieces if p.part == part]) for part in parts}


def _after_colon(text: str) -> str:
    """The text after its last colon, if a question is left."""
    rest = _COLON.split(text)[-1]
    return rest if has_words(rest, _REQUEST_WORDS) else text


def _after_role(text: str, start: int, end: int) -> int:
    """The start of [start, end) after a first line of one word: templates write roles so."""
    first = text.find("\n", start, end) + 1
    return first if first and not has_words(text[start:first], _STATEMENT_WORDS) else start


def is_stated(said: Sequence[Word], limits: Limits) -> bool:
    """Whether the statements explain the sentence's informative words.

    A word is explained if it stands in them, and they take half of its surprise. At least as many
    words are explained as are absent from the statements; no unlikely number is unexplained, and no
    name or number is absent. The statements must be worth as much as a turn to the words in them,
    and explain most of the surprise of all words.
    """
    unlikely = [word for word in said if word.unlikely_by >= limits.min_figure]
    explained = [
        word for word in unlikely if word.is_held and word.gain >= limits.kept_word * -word.without
    ]
    if any(word.is_figure and word not in explained for word in unlikely):
        return False
    foreign = [word for word in said if not word.is_held]
    if any(word.is_name or word.is_figure for word in foreign) or len(foreign) > len(explained):
        return False
    worth = sum(word.gain for word in unlikely if word.is_held)
    needed = limits.stated_share * sum(word.unlikely_by for word in unlikely)
    return worth >= max(limits.min_turn, needed)
