"""Models that tell whether a passage says a sentence in other words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import hypot
from operator import mul
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import without_folder
from attribot_rag.support.support import ENTAILED, Entailed, Regression
from attribot_rag.support.wording import Passage, RetrievedText

SIMILAR = 0.6
"""The least probability, by embeddings and words, at which a passage says a sentence."""
RESEMBLANCE = Regression(-3.5, {"cosine": 3.9, "covered": 2.6, "lacking": -0.4})
"""By embeddings and words, fitted on people's judgements (docs/evaluation/readers.md)."""
_ENTAILMENT = "entailment"

Vector = Sequence[float]


class Resemblance(NamedTuple):
    """How much a passage resembles a sentence, in shares from 0 to 1 and a cosine."""

    cosine: float
    """The cosine of their embeddings."""
    covered: float
    """The share of the sentence's words, by weight, that the passage has."""
    lacking: float
    """The share of the sentence's numbers and names that the passage lacks."""


class Classifier(Protocol):
    """A CrossEncoder, or a text-classification pipeline of Transformers."""

    @property
    def model(self) -> Any: ...


class LangChainEmbeddings(Protocol):
    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


class LlamaIndexEmbedding(Protocol):
    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]: ...


class Helper(Protocol):
    """Finds passages that say a sentence in other words."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def entailed(self) -> Entailed | None:
        """Returns the probability that a text entails a sentence; None if it cannot tell."""
        ...

    def passages_for(self, sentence: str, retrieved: RetrievedText) -> list[Passage]:
        """The passages that probably say a sentence, the most probable first."""
        ...


Model = Classifier | LangChainEmbeddings | LlamaIndexEmbedding
"""A model that can be a helper."""


def helper_of(model: Any) -> Helper:
    """A helper made of a model. Raises InvalidInput if the model is of another kind."""
    helper = helper_or_none(model)
    if helper is None:
        raise InvalidInput(
            f"{type(model).__name__!r} neither classifies pairs of texts nor embeds texts; pass a "
            "CrossEncoder, transformers.pipeline('text-classification', model), or embeddings"
        )
    return helper


def helper_or_none(model: Any) -> Helper | None:
    """A helper made of a model, or None. Raises InvalidInput for another kind of classifier."""
    if isinstance(model, Entailment | Similarity):
        return model
    if any(callable(getattr(model, name, None)) for name in _EMBED):
        return Similarity(model)
    is_named = hasattr(getattr(getattr(model, "model", None), "config", None), "id2label")
    if is_named and (_is_pipeline(model) or hasattr(model, "predict")):
        return Entailment(model)
    return None


@dataclass(frozen=True)
class Entailment:
    """A classifier that tells whether one text entails another.

    Raises InvalidInput if it has no label "entailment", which models for natural language inference
    have.
    """

    classifier: Any

    def __post_init__(self) -> None:
        if _ENTAILMENT not in self._labels:
            raise InvalidInput(
                f"the labels of {self.name!r} are {', '.join(self._labels)}; a reader needs a "
                "model for natural language inference, with the label 'entailment'"
            )

    @property
    def name(self) -> str:
        """The name of the model, without its folder."""
        return _name(self.classifier.model.config.name_or_path, self.classifier)

    @property
    def _labels(self) -> list[str]:
        by_id: dict[int, str] = self.classifier.model.config.id2label
        return [by_id[number].casefold() for number in sorted(by_id)]

    def passages_for(self, sentence: str, retrieved: RetrievedText) -> list[Passage]:
        passages = retrieved.passages
        found = self.probabilities([passage.with_context for passage in passages], sentence)
        return _likely(zip(found, passages, strict=True), ENTAILED)

    def entailed(self, text: str, sentence: str) -> float:
        (found,) = self.probabilities([text], sentence)
        return found

    def probabilities(self, texts: Sequence[str], sentence: str) -> list[float]:
        """The probability, from 0 to 1, that each text entails the sentence."""
        if not texts:
            return []
        if _is_pipeline(self.classifier):
            asked = [{"text": text, "text_pair": sentence} for text in texts]
            found = self.classifier(asked, top_k=None, truncation=True)
            return [
                next(each["score"] for each in labels if each["label"].casefold() == _ENTAILMENT)
                for labels in found
            ]
        pairs = [(text, sentence) for text in texts]
        rows = self.classifier.predict(pairs, apply_softmax=True, show_progress_bar=False)
        return [float(row[self._labels.index(_ENTAILMENT)]) for row in rows]


@dataclass(frozen=True, eq=False)
class Similarity:
    """Embeddings, which tell how much a passage resembles a sentence.

    The passages of an answer are embedded once.
    """

    embeddings: Any
    _passages: WeakKeyDictionary[RetrievedText, list[Vector]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    entailed = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Similarity) and self.embeddings is other.embeddings

    def __hash__(self) -> int:
        return id(self.embeddings)  # LlamaIndex's have no hash

    @property
    def name(self) -> str:
        """The name of the model, without its folder."""
        given = self.embeddings
        names = (getattr(given, name, None) for name in ("model_name", "model"))
        return _name(next((name for name in names if isinstance(name, str)), ""), given)

    def passages_for(self, sentence: str, retrieved: RetrievedText) -> list[Passage]:
        passages, wording = retrieved.passages, retrieved.wording
        if not passages:
            return []
        if retrieved not in self._passages:
            self._passages[retrieved] = self._vectors(
                [passage.with_context for passage in passages]
            )
        (own,) = self._vectors([sentence.strip()])
        content = wording.content(sentence)
        facts = [word for word in content if word.is_number or word.is_name]

        def resemblance(passage: Passage, vector: Vector) -> Resemblance:
            keys = wording.keys(passage.with_context)
            return Resemblance(
                cosine=_cosine(own, vector),
                covered=wording.covered(content, keys),
                lacking=len(wording.lacking(facts, keys)) / max(1, len(facts)),
            )

        vectors = self._passages[retrieved]
        found = (
            (RESEMBLANCE.score(resemblance(passage, vector)), passage)
            for passage, vector in zip(passages, vectors, strict=True)
        )
        return _likely(found, SIMILAR)

    def _vectors(self, texts: Sequence[str]) -> list[Vector]:
        embed: Callable[[Sequence[str]], Iterable[Vector]] = next(
            getattr(self.embeddings, name) for name in _EMBED if hasattr(self.embeddings, name)
        )
        different = list(dict.fromkeys(texts))
        vectors = dict(zip(different, embed(different), strict=True))
        return [vectors[text] for text in texts]


_EMBED = ("embed_documents", "get_text_embedding_batch")
"""The methods that embed texts, in LangChain and in LlamaIndex."""


def _cosine(one: Vector, other: Vector) -> float:
    return float(sum(map(mul, one, other))) / (hypot(*one) * hypot(*other) or 1.0)


def _likely(found: Iterable[tuple[float, Passage]], least: float) -> list[Passage]:
    ranked = sorted(found, key=lambda each: -each[0])
    return [passage for probability, passage in ranked if probability >= least]


def _is_pipeline(model: Any) -> bool:
    return getattr(model, "task", "") == "text-classification"


def _name(given: object, model: object) -> str:
    return without_folder(str(given or "")) or type(model).__name__
