"""A cache of scored rows on disk: after a change of thresholds, no model has to run."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rapidfuzz.distance import Prefix

from attribot_rag import Attributor, Method, VerdictOptions
from attribot_rag.model.generation import Generation, LayerCache, PromptCache
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import ScoringModels
from attribot_rag.scoring.base import Implementation, Prefill, Reduction, TwinImplementation
from attribot_rag.scoring.implementations.cropped import as_dynamic_cache
from attribot_rag.scoring.implementations.packed import Packed
from attribot_rag.scoring.implementations.selection import Requested
from attribot_rag.scoring.log_likelihoods import Effects, Patch
from attribot_rag.scoring.row import Row

_DEFAULTS = VerdictOptions()
_PIECE = 512  # tokens of a prompt that are read at once
_NUM_CACHES = 30


class RowStore:
    """Vectors of float32 by the SHA-256 of their inputs, in an SQLite file.

    `known` and `new` count vectors that were read and vectors that were computed.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / "rows.sqlite", timeout=60)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
        )
        self.known = 0
        self.new = 0

    def vector(self, key: object, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The vector of this key, computed only if it is not there."""
        (vector,) = self.vectors([key], lambda _: [compute()])
        return vector

    def vectors(
        self, keys: Sequence[object], compute: Callable[[list[int]], Iterable[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """The vectors of these keys; `compute` is given the indices of those that lack."""
        digests = [hashlib.sha256(repr(key).encode()).digest() for key in keys]
        vectors = [self._get(digest) for digest in digests]
        lacking = [index for index, vector in enumerate(vectors) if vector is None]
        self.known += len(keys) - len(lacking)
        self.new += len(lacking)
        for index, vector in zip(lacking, compute(lacking) if lacking else (), strict=True):
            vectors[index] = vector
            data = vector.float().cpu().numpy().tobytes()
            with self._connection:
                self._connection.execute(
                    "INSERT OR REPLACE INTO rows VALUES (?, ?)", (digests[index], data)
                )
        return [vector for vector in vectors if vector is not None]

    def _get(self, digest: bytes) -> torch.Tensor | None:
        query = "SELECT vector FROM rows WHERE key = ?"
        row = self._connection.execute(query, (digest,)).fetchone()
        return None if row is None else torch.frombuffer(bytearray(row[0]), dtype=torch.float32)


class CachingAttributor(Attributor):
    """The default attributor with a store of scored rows."""

    def __init__(
        self,
        language_model: LanguageModel,
        store: RowStore,
        method: str | Method = "auto",
        *,
        verdicts: VerdictOptions | None = _DEFAULTS,
    ) -> None:
        super().__init__(language_model, method=method, verdicts=verdicts, progress=False)
        self._scoring_models = self.scoring_models = CachingModels(language_model, store)


class CachingModels(ScoringModels):
    """Scoring models whose implementations look into the store first.

    All scorers of an attribution share them, with reduced prompts too.
    """

    def __init__(self, language_model: LanguageModel, store: RowStore) -> None:
        super().__init__(language_model.model)
        self.name = language_model.name, str(language_model.dtype)
        self.store = store
        self._last: _CachedPacked | None = None
        self._read = OrderedDict[tuple[int, ...], PromptCache]()

    def select(
        self, requested: Requested, generation: Generation, prefill: Prefill | None = None
    ) -> TwinImplementation:
        if self.first(requested, generation) is not Packed:
            return super().select(requested, generation, prefill)
        last, text = self._last, (generation.prompt_ids, generation.response_ids)
        if last is None or text != (last.generation.prompt_ids, last.generation.response_ids):
            self._last = last = _CachedPacked(self, generation)
        return last

    def prompt_cache(self, token_ids: tuple[int, ...]) -> PromptCache:
        """The model's cache of these ids; what they begin with may have been read before."""
        shared, begun = 0, PromptCache()
        for ids, cache in self._read.items():
            if (common := Prefix.similarity(ids, token_ids)) > shared:
                shared, begun = common, cache
        model, cache = self.plain_twin, as_dynamic_cache(begun, shared)
        for start in range(shared, len(token_ids), _PIECE):
            ids = token_ids[start : start + _PIECE]
            positions = torch.arange(start, start + len(ids))[None]
            model.base_model(
                input_ids=torch.tensor([ids]),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            )
        layers = tuple(LayerCache(layer.keys, layer.values) for layer in cache.layers)
        self._read[token_ids] = layers
        if len(self._read) > _NUM_CACHES:
            self._read.popitem(last=False)
        return layers

    def masked_refusal(self, kind: type[Implementation], generation: Generation) -> str | None:
        return super().masked_refusal(Packed if kind is _CachedPacked else kind, generation)


class _CachedPacked(Packed):
    """Packed, with a prefill only if a row is not in the store.

    The key of an exact row is its ids; of a masked row the prompt, and the hidden and recomputed
    positions.
    """

    def __init__(self, models: CachingModels, generation: Generation) -> None:
        super().__init__(models._twin(Packed.attention), generation)
        self._models = models
        self._is_ready = False

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        def score(lacking: list[int]) -> Iterable[torch.Tensor]:
            self._make_ready()
            return super(_CachedPacked, self).log_likelihoods([rows[index] for index in lacking])

        return torch.stack(self._models.store.vectors([self._key(row) for row in rows], score))

    def weights(self, row: Row, reduction: Reduction) -> torch.Tensor:
        def read() -> torch.Tensor:
            self._make_ready()
            return super(_CachedPacked, self).weights(row, reduction)

        return self._models.store.vector(("weights", reduction, self._key(row)), read)

    def effects(self, row: Row, patch: Patch) -> Effects:
        def estimate() -> torch.Tensor:
            self._make_ready()
            effects = super(_CachedPacked, self).effects(row, patch)
            return torch.cat([effects.by_part.flatten(), effects.weights])

        members = hashlib.sha256(patch.members.numpy().tobytes()).hexdigest()
        parts = tuple(map(tuple, patch.parts))
        key = ("effects", members, parts, patch.factors, patch.located, self._key(row))
        vector = self._models.store.vector(key, estimate)
        num_effects = len(vector) - len(patch.members)
        return Effects(vector[:num_effects].view(len(parts), -1), vector[num_effects:])

    def _make_ready(self) -> None:
        if not self._is_ready:
            with torch.inference_mode():
                cache = self._models.prompt_cache(self.generation.prompt_ids[:-1])
                self.generation = replace(self.generation, cache=cache)
                self.prepare(self._models.plain_twin)
            self._is_ready = True

    def _key(self, row: Row) -> tuple[object, ...]:
        generation = self.generation
        read = row.full_ids(generation) if row.is_exact else (generation.prompt_ids, row.blocks)
        return (self._models.name, read, generation.response_ids)
