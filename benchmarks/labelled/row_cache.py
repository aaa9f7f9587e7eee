"""A cache of scored rows on disk: after a change of thresholds, no model has to run."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from attribot_rag import Attributor, Method
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import ScoringModels
from attribot_rag.scoring.base import Implementation, Reading, Reduction, TwinImplementation
from attribot_rag.scoring.implementations.packed import Packed
from attribot_rag.scoring.log_likelihoods import Effects, Patch
from attribot_rag.scoring.row import Row


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

    def get(self, key: object) -> torch.Tensor | None:
        found = self._connection.execute(
            "SELECT vector FROM rows WHERE key = ?", (_digest(key),)
        ).fetchone()
        if found is None:
            return None
        self.known += 1
        return torch.from_numpy(np.frombuffer(found[0], dtype=np.float32).copy())

    def put(self, key: object, vector: torch.Tensor) -> None:
        self.new += 1
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO rows VALUES (?, ?)",
                (_digest(key), vector.float().cpu().numpy().tobytes()),
            )


def _digest(key: object) -> bytes:
    return hashlib.sha256(repr(key).encode()).digest()


class CachingAttributor(Attributor):
    """The default attributor with a store of scored rows."""

    def __init__(
        self, language_model: LanguageModel, store: RowStore, method: str | Method = "auto"
    ) -> None:
        super().__init__(language_model, method=method, progress=False)
        self._scoring_models = self.scoring_models = CachingModels(language_model, store)


class CachingModels(ScoringModels):
    """Scoring models whose implementations look into the store first.

    All scorers of an attribution share them, with reduced prompts too.
    """

    def __init__(self, language_model: LanguageModel, store: RowStore) -> None:
        super().__init__(language_model.model)
        # Reading all weights takes longer than everything else; here they never change.
        self._settled = self.settled()
        self._settled.__enter__()
        self._stored_as = language_model.name, str(language_model.dtype)
        self._store = store

    def select(
        self, requested: str, generation: Generation, reading: Reading | None = None
    ) -> TwinImplementation:
        if self.first(requested, generation) is not Packed:
            return super().select(requested, generation, reading)
        twin = self._twin(Packed.attention)
        return _CachedPacked(twin, generation, self.plain_twin, self._store, self._stored_as)

    def masked_refusal(self, kind: type[Implementation], generation: Generation) -> str | None:
        return super().masked_refusal(Packed if kind is _CachedPacked else kind, generation)


class _CachedPacked(Packed):
    """Packed, with a prefill only if a row is not in the store.

    The key of an exact row is its ids; of a masked row the prompt, and the hidden and recomputed
    positions.
    """

    def __init__(
        self,
        twin: PreTrainedModel,
        generation: Generation,
        native: PreTrainedModel,
        store: RowStore,
        name: tuple[str, str],
    ) -> None:
        super().__init__(twin, generation)
        self._native = native
        self._store = store
        self._name = name
        self._is_ready = False

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        keys = [self._key(row) for row in rows]
        found = [self._store.get(key) for key in keys]
        missing = [index for index, one in enumerate(found) if one is None]
        if missing:
            self._make_ready()
            scored = super().log_likelihoods([rows[index] for index in missing])
            for index, vector in zip(missing, scored, strict=True):
                self._store.put(keys[index], vector)
                found[index] = vector
        return torch.stack([one for one in found if one is not None])

    def weights(self, row: Row, reduction: Reduction) -> torch.Tensor:
        key = ("weights", reduction, self._key(row))
        found = self._store.get(key)
        if found is None:
            self._make_ready()
            found = super().weights(row, reduction)
            self._store.put(key, found)
        return found

    def effects(self, row: Row, patch: Patch) -> Effects:
        members = hashlib.sha256(patch.members.numpy().tobytes()).hexdigest()
        parts = tuple(map(tuple, patch.parts))
        key = ("effects", members, parts, patch.factors, patch.located, self._key(row))
        found = self._store.get(key)
        if found is None:
            self._make_ready()
            effects = super().effects(row, patch)
            self._store.put(key, torch.cat([effects.by_part.flatten(), effects.weights]))
            return effects
        num_effects = len(found) - len(patch.members)
        return Effects(found[:num_effects].view(len(parts), -1), found[num_effects:])

    def _make_ready(self) -> None:
        if not self._is_ready:
            with torch.inference_mode():
                self.prepare(self._native)
            self._is_ready = True

    def _key(self, row: Row) -> tuple[object, ...]:
        generation = self.generation
        read = row.full_ids(generation) if row.is_exact else (generation.prompt_ids, row.blocks)
        return (self._name, read, generation.response_ids)
