"""The contract of methods: scores of units, their cost, and how they rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isnan
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.context.text import LEAST_LETTERS, words_and_numbers
from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from attribot_rag.scoring import LogLikelihoods, Scorer


TokenScores = tuple[float, ...]
"""[response tokens]"""

_MIN_SHORT_WORD = 4.0
"""The reliance, in nats, from which a word of up to three letters is a content word."""


@dataclass(frozen=True)
class GroupScore:
    """The score of several units that were removed together, by index. `exact` is as in Scores."""

    units: tuple[int, ...]
    token_scores: TokenScores
    exact: bool


@dataclass(frozen=True)
class Scores:
    """Scores of a scorer's units, in nats unless `unit` says otherwise.

    - `token_scores` [units][response tokens]; None for a unit that was not scored.
    - `exact` [units]: the unit was removed from the full prompt, and everything after it encoded
      again.
    - `token_log_likelihoods`: of the response with nothing removed; None if the budget did not even
      allow this row.
    - `context_reliance`: the score of all documents together, if measured. With `of_proxy`, this
      and the last one are the proxy's.
    - `estimated` [units]: the score is an estimate, such as a share of a group's score, and not
      from an ablation of this unit alone. False for units without a score; empty if none is an
      estimate.
    - `groups`: scores of several units removed together, the coarsest groups first.
    - `num_dropped`: how many units were removed as whole tokens, not to the character.
    - `attention` [units]: how strongly the question and the response attend to each unit, if that
      selected candidates.
    - `ranked_by`: the name of the proxy that ranked the units, if one did.
    - `notes`: sentences for the reader.
    """

    token_log_likelihoods: TokenScores | None
    token_scores: tuple[TokenScores | None, ...]
    exact: tuple[bool, ...]
    context_reliance: TokenScores | None = None
    of_proxy: bool = False
    estimated: tuple[bool, ...] = ()
    groups: tuple[GroupScore, ...] = ()
    num_dropped: int = 0
    attention: tuple[float, ...] | None = None
    unit: str = "nats"
    ranked_by: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def empty(cls, scorer: Scorer, token_log_likelihoods: TokenScores | None = None) -> Scores:
        """No score for any unit."""
        num_units = len(scorer.units)
        return cls(token_log_likelihoods, (None,) * num_units, (False,) * num_units)

    @property
    def num_approximate(self) -> int:
        """How many units have no exact score."""
        return sum(
            row is not None and not exact
            for row, exact in zip(self.token_scores, self.exact, strict=True)
        )

    @property
    def totals(self) -> list[float | None]:
        """[units]: the sum of each unit's scores over the response, None if not scored."""
        return [None if row is None else sum(row) for row in self.token_scores]


@dataclass(frozen=True)
class Part:
    """A part of the response, such as a sentence, by the indices of its tokens.

    `words` are its content words that the question lacks, in lower case, and `word_tokens` the
    tokens of each. `all_words` also has those that are in the question.
    """

    tokens: tuple[int, ...] = ()
    word_tokens: tuple[tuple[int, ...], ...] = ()
    words: tuple[str, ...] = ()
    all_words: frozenset[str] = frozenset()

    @property
    def tokens_and_words(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of the part, then those of every word."""
        return (self.tokens, *self.word_tokens)


@dataclass(frozen=True)
class SourceSet:
    """The units, by index, that a search found for a part of the response.

    - `members`: the smallest set that is enough, best first; if it is not `sufficient`, the units
      that the part needs most.
    - `alternatives`: each is enough alone if the members are left out.
    - `further`: units that are needed in addition.
    - `complete`: False if the budget ended the search.
    - `needed_with`: for each member that the search tried to drop, the other units at that time.
      Without the member, they were not enough.
    """

    members: tuple[int, ...] = ()
    alternatives: tuple[int, ...] = ()
    sufficient: bool = False
    complete: bool = True
    further: tuple[int, ...] = ()
    needed_with: Mapping[int, tuple[int, ...]] = field(default_factory=dict, compare=False)


@runtime_checkable
class Method(Protocol):
    """Decides which ablations a scorer computes. Your own method is a subclass."""

    @property
    def name(self) -> str:
        """The name in results, with relevant options."""
        ...

    def run(self, scorer: Scorer) -> Scores:
        """The scores of the scorer's units."""
        ...

    def cost(self, workload: Workload) -> Cost:
        """The expected cost of a run."""
        ...

    def ranking(self, scorer: Scorer) -> Ranking:
        """The scores that rank the units. Verdicts try units in this order."""
        return Ranking(self.run(scorer))


def num_kept(keep: int | float, count: int) -> int:
    """How many of `count` units to keep, from 1 to `count`.

    `keep` is a number, or a fraction up to 1.0. Raises InvalidInput for any other value.
    """
    if isinstance(keep, bool) or not keep > 0 or (isinstance(keep, float) and keep > 1):
        raise InvalidInput(f"keep={keep!r}; use a number of at least 1, or a fraction up to 1.0")
    kept = keep if isinstance(keep, int) else round(keep * count)
    return max(1, min(kept, count))


def check_count(name: str, value: object, least: int) -> None:
    """Raises InvalidInput, with the option's name, unless the value is a number from `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{name}={value!r}; use a whole number of at least {least}")


def total(row: TokenScores | None, tokens: Iterable[int]) -> float:
    """The sum of a row over some of the response's tokens; 0 for None."""
    return 0.0 if row is None else sum(row[token] for token in tokens)


def span_totals(rows: Sequence[TokenScores | None], tokens: Sequence[int]) -> list[float | None]:
    """The sum of each row over some of the response's tokens; None for None."""
    return [None if row is None else total(row, tokens) for row in rows]


def best(totals: Sequence[float | None], count: int | None = None) -> list[int]:
    """Indices of the `count` highest totals, or of all, best first; None comes last."""
    order = sorted(
        range(len(totals)),
        key=lambda index: (totals[index] is None, -(totals[index] or 0.0), index),
    )
    return order[:count]


def in_turn(rankings: Sequence[Sequence[int]]) -> list[int]:
    """The first of each ranking, then the second of each, without repetition."""
    return list(dict.fromkeys(chain.from_iterable(zip(*rankings, strict=True))))


def scores_of(log_likelihoods: LogLikelihoods) -> Scores:
    """The scores of units, from the log-likelihoods under one ablation for each unit."""
    full = tuple(log_likelihoods.full.tolist())
    changes = tuple(log_likelihoods.changes)
    return Scores(None if isnan(full[0]) else full, changes, log_likelihoods.exact)


def answer_sentences(scorer: Scorer) -> list[range]:
    """The response tokens of each sentence, in order. Sentences without tokens are left out."""
    text = scorer.response.text
    spans = split_spans(text, make_splitter("sentence", scorer.context.answer_language(text)))
    return [tokens for span in spans if (tokens := scorer.response.tokens_in(span))]


def parts_of(
    parts: Sequence[Sequence[int]],
    text: str,
    tokens_in: Callable[[int, int], Iterable[int]],
    question: str = "",
    reliance: TokenScores | None = None,
) -> list[Part]:
    """These parts of a response, with their words.

    `tokens_in` returns the tokens of characters of the text. Content words are numbers, words of
    four letters or more, shorter words with a capital (except a part's first word), and words that
    rely much on the documents, as "two" may. Words of the `question` are not new, so they are left
    out if a part has others.
    """
    repeated = {word[0].casefold() for word in words_and_numbers(question)}
    part_of = {token: index for index, tokens in enumerate(parts) for token in tokens}
    words: list[list[tuple[tuple[int, ...], str]]] = [[] for _ in parts]
    for match in words_and_numbers(text):
        word = match.group()
        word_tokens = tuple(i for i in tokens_in(*match.span()) if i in part_of)
        if not word_tokens:
            continue
        index = part_of[word_tokens[0]]
        is_name = word != word.lower() and word_tokens[0] != parts[index][0]
        is_long = word[0].isdigit() or len(word) >= LEAST_LETTERS
        if is_long or is_name or total(reliance, word_tokens) >= _MIN_SHORT_WORD:
            words[index].append((word_tokens, word.casefold()))
    return [_part(tokens, of_part, repeated) for tokens, of_part in zip(parts, words, strict=True)]


def _part(
    tokens: Sequence[int], words: Sequence[tuple[tuple[int, ...], str]], repeated: Collection[str]
) -> Part:
    new = [(own, word) for own, word in words if word not in repeated] or words
    return Part(
        tuple(tokens),
        tuple(own for own, _ in new),
        tuple(word for _, word in new),
        frozenset(word for _, word in words),
    )


def answer_parts(scorer: Scorer, reliance: TokenScores | None = None) -> list[Part]:
    """The sentences of the response, with their words."""
    response, asked, sentences = (
        scorer.response,
        scorer.context.rest_of_prompt,
        answer_sentences(scorer),
    )
    return parts_of(
        sentences, response.text, lambda *span: response.tokens_in(span), asked, reliance
    )


class Ranking:
    """Scores that rank units: the `measured` ones, and estimates for all if `estimate` makes them.

    Estimates are made at first use, or immediately if `eager`. A method with estimates has no
    search of its own: the verdicts' search is the method's.
    """

    def __init__(
        self,
        measured: Scores,
        estimate: Callable[[Scores], Scores] | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self.measured = self.scores = measured
        self.has_search = estimate is None
        """Whether the method has searched already; otherwise, the verdicts run its search."""
        self._estimate = estimate
        if eager:
            self.estimate()

    @property
    def is_complete(self) -> bool:
        """Whether the estimates are made, or there are none to make."""
        return self._estimate is None

    def estimate(self) -> Scores:
        """The scores with estimates of all units, if there are any. They are made only once."""
        if self._estimate is not None:
            self.scores, self._estimate = self._estimate(self.measured), None
        return self.scores

    def ranked(self, part: Part) -> Sequence[int]:
        """All units by their scores for the part and, in turn, by attention; none without any."""
        scores = self.estimate()
        if not any(row is not None for row in scores.token_scores):
            return ()
        attended = [] if scores.attention is None else [best(scores.attention)]
        return in_turn([best(span_totals(scores.token_scores, part.tokens)), *attended])


@dataclass(frozen=True)
class Cost:
    """The tokens that each model encodes, and the FLOPs of both together."""

    target_tokens: float
    proxy_tokens: float
    flops: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.target_tokens + other.target_tokens,
            self.proxy_tokens + other.proxy_tokens,
            self.flops + other.flops,
        )


@dataclass(frozen=True)
class Workload:
    """Lengths in tokens, numbers of sources and groups, and the size of the model.

    The context is everything from the first document to the last. The preamble is before it, the
    query after it. `is_cached`: the model has read the prompt already. `has_baseline`: the row with
    nothing removed is scored already.
    """

    context_tokens: int
    query_tokens: int
    response_tokens: int
    num_sources: int
    num_groups: int
    num_parameters: int
    is_cached: bool = False
    has_baseline: bool = False
    preamble_tokens: int = 0

    @classmethod
    def of(cls, scorer: Scorer) -> Workload:
        """The workload of scoring the scorer's sources."""
        context, generation = scorer.context, scorer.generation
        regions = context.regions
        first = context.prompt.tokens_in(regions[0]).start if regions else context.query_start
        num_sources = len(context.sources)
        num_documents = len({i for source in context.sources for i in source.documents})
        return cls(
            context_tokens=context.query_start - first,
            query_tokens=len(generation.prompt_ids) - context.query_start,
            response_tokens=len(generation.response_ids),
            num_sources=num_sources,
            num_groups=max(1, min(num_documents, num_sources)),
            num_parameters=scorer.language_model.weights.num_parameters,
            is_cached=generation.cache is not None,
            preamble_tokens=first,
        )

    @property
    def prompt_tokens(self) -> int:
        return self.preamble_tokens + self.context_tokens + self.query_tokens

    @property
    def unread_tokens(self) -> int:
        """The prompt's tokens, unless it is cached."""
        return 0 if self.is_cached else self.prompt_tokens

    @property
    def baseline_tokens(self) -> int:
        """The response's tokens, unless the row with nothing removed is scored."""
        return 0 if self.has_baseline else self.response_tokens

    @property
    def tail_tokens(self) -> int:
        """The tokens of the query and the response."""
        return self.query_tokens + self.response_tokens

    def cost(self, tokens: float) -> Cost:
        """The cost of so many tokens through the model."""
        return Cost(tokens, 0.0, float(2 * self.num_parameters * tokens))

    def cost_without_cache(self) -> Cost:
        """The cost of leave-one-out without a cache: |S| + 1 rows of |C| + |Q| + |R| tokens."""
        row = self.prompt_tokens + self.response_tokens
        return self.cost((self.num_sources + 1) * row)

    def narrowed(self, share: float, *, shorten: bool = False) -> Workload:
        """A share of the sources and groups in the same context.

        With `shorten`, they are in a prompt without the others, which is not read yet.
        """
        num_sources = max(1, round(self.num_sources * share))
        num_groups = max(1, min(num_sources, round(self.num_groups * share)))
        narrowed = replace(self, num_sources=num_sources, num_groups=num_groups)
        if not shorten:
            return narrowed
        length = round(self.context_tokens * share)
        return replace(narrowed, context_tokens=length, is_cached=False, has_baseline=False)

    def after(self, earlier: Cost) -> Workload:
        """The same workload after a stage of this cost, which may have scored the prompt."""
        scored = earlier.target_tokens > 0
        return replace(
            self, is_cached=self.is_cached or scored, has_baseline=self.has_baseline or scored
        )
