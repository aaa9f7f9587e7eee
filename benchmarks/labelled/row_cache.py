"""A cache of scored rows on disk: after a change of thresholds, no model has to run."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from attribot_rag import Attributor, Method, VerdictOptions
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import LocalBackend
from attribot_rag.scoring.backend import Reading
from attribot_rag.scoring.local_prefix import LocalPrefix
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.patching import Effects, Patch
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Requested

_DEFAULTS = VerdictOptions()


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
        language_model: LocalModel,
        store: RowStore,
        method: str | Method = "auto",
        *,
        verdicts: VerdictOptions | None = _DEFAULTS,
    ) -> None:
        super().__init__(
            language_model,
            backend=CachingBackend(language_model, store),
            method=method,
            verdicts=verdicts,
            progress=False,
        )


class CachingBackend(LocalBackend):
    """A backend whose prefixes look into the store first.

    All scorers of an attribution share it, with reduced prompts too.
    """

    def __init__(self, language_model: LocalModel, store: RowStore) -> None:
        super().__init__(language_model.model)
        self.name = language_model.name, str(language_model.dtype)
        self.store = store

    def prefix_for(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> LocalPrefix:
        prefix = super().prefix_for(generation, implementation, pass_tokens)
        if type(prefix) is not Packed:
            return prefix
        cached = _CachedPacked(prefix.twin, generation, prefix.native)
        cached.pass_tokens, cached.attends_at_once = prefix.pass_tokens, prefix.attends_at_once
        cached.why_no_masks = prefix.why_no_masks
        cached.name_of_model, cached.store = self.name, self.store
        return cached


class _CachedPacked(Packed):
    """Packed, which reads the prompt only if a row is not in the store.

    The key of an exact row is its ids; of a masked row the prompt, and the hidden and recomputed
    positions.
    """

    name_of_model: tuple[str, str]
    store: RowStore
    _was_asked = False

    @property
    def num_unread(self) -> int:
        return 0 if self._was_asked else super().num_unread

    def read(self, reading: Reading | None = None) -> None:
        self._was_asked = True

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        def score(lacking: list[int]) -> Iterable[torch.Tensor]:
            super(_CachedPacked, self).read()
            return super(_CachedPacked, self).log_likelihoods([rows[index] for index in lacking])

        before = self.scored_tokens
        vectors = self.store.vectors([self._key(row) for row in rows], score)
        self.scored_tokens = before + sum(map(self.num_tokens, rows))  # the same without a store
        return torch.stack(vectors)

    def effects(self, row: Row, patch: Patch) -> Effects:
        def estimate() -> torch.Tensor:
            super(_CachedPacked, self).read()
            effects = super(_CachedPacked, self).effects(row, patch)
            return torch.cat([effects.by_part.flatten(), effects.weights])

        members = hashlib.sha256(patch.members.numpy().tobytes()).hexdigest()
        parts = tuple(map(tuple, patch.parts))
        key = ("effects", members, parts, patch.factors, patch.single_backward_pass, self._key(row))
        vector = self.store.vector(key, estimate)
        num_effects = len(vector) - len(patch.members)
        return Effects(vector[:num_effects].view(len(parts), -1), vector[num_effects:])

    def _key(self, row: Row) -> tuple[object, ...]:
        generation = self.generation
        read = row.full_ids(generation) if row.has_no_gap else (generation.prompt_ids, row.blocks)
        kept = () if row.kept_response is None else (row.kept_response,)
        return (self.name_of_model, read, generation.response_ids, *kept)
