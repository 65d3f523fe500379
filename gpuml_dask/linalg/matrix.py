"""The matrix that a call decomposes, checked before anything is computed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from sklearn.utils import check_random_state

from gpuml.encodings import Packed
from gpuml.linalg import checked_plan, checked_random
from gpuml.reading.sources import Source
from gpuml.solvers.compressed import Plan
from gpuml_dask._dask import is_on_gpu, lowered, meta_of
from gpuml_dask.rows.lazy import as_collection

ITERATORS = ("power", "QR")
SEEDS = 2**31 - 1
# All chunks of a strip come to one worker, and stay there.
MOST_STRIP_BYTES = 2**31


@dataclass(frozen=True)
class Matrix:
    """A dask array of known chunk sizes, in strips along its long side; nothing is computed."""

    array: da.Array

    @property
    def is_wide(self) -> bool:
        """Whether strips are of columns: from the shape alone, so that chunks do not matter."""
        return self.array.shape[0] < self.array.shape[1]

    @cached_property
    def long_chunks(self) -> tuple[int, ...]:
        """Chunk sizes along the long side: one for each strip, some perhaps 0."""
        return self.array.chunks[1 if self.is_wide else 0]

    @cached_property
    def strips(self) -> dict[int, list[tuple]]:
        """Keys of the chunks of each strip that is not empty, by its number."""
        name = self.array.name
        short = self.array.chunks[0 if self.is_wide else 1]
        members = [j for j, size in enumerate(short) if size]
        return {
            i: [(name, j, i) if self.is_wide else (name, i, j) for j in members]
            for i, size in enumerate(self.long_chunks)
            if size
        }

    @property
    def is_grid(self) -> bool:
        """Whether strips are too large for tasks, which then work on single chunks."""
        members = len(next(iter(self.strips.values())))
        return members > 1 and self.n_bytes > MOST_STRIP_BYTES * len(self.strips)

    @property
    def meta(self) -> Any:
        """An empty array in the library of the results."""
        meta = meta_of(self.array)
        return meta.data if isinstance(meta, Packed) else meta_from_array(meta)

    @property
    def on_gpu(self) -> bool:
        return is_on_gpu(self.array)

    @property
    def may_miss(self) -> bool:
        meta = meta_of(self.array)
        return isinstance(meta, Packed) and meta.missing

    @property
    def n_bytes(self) -> int:
        """Bytes of all chunks, encoded as they are."""
        meta = meta_of(self.array)
        bits = meta.bits if isinstance(meta, Packed) else 8 * self.array.dtype.itemsize
        return self.array.size * bits // 8

    def plan(self, k: int, n_power_iter: int, n_oversamples: int, dtype: str | None) -> Plan:
        """The sizes of a call, checked against the matrix."""
        meta, kind = meta_of(self.array), self.array.dtype
        codes = isinstance(meta, Packed) or (kind.kind in "biu" and kind.itemsize == 1)
        source = Source(self.array.shape, _nothing, 1, self.array, codes=codes)
        return checked_plan(source, k, n_power_iter, n_oversamples, dtype)


def _nothing(rows):
    raise NotImplementedError


def checked_matrix(a: Any) -> Matrix:
    """The matrix of a dask array; a TypeError or ValueError if it is none."""
    a = as_collection(a, np.nan)
    if hasattr(a, "to_dask_array"):
        raise TypeError("a is a DataFrame. Use svd_compressed(a.to_dask_array(lengths=True), ...).")
    if not isinstance(a, da.Array):
        raise TypeError(
            f"a must be a dask array, got {type(a).__name__}. gpuml.linalg.svd_compressed takes "
            "arrays and files; dask.array.from_array(a, chunks=...) makes a dask array of one."
        )
    if a.ndim != 2:
        raise ValueError(f"a must have 2 dimensions, got shape {a.shape}.")
    if any(np.isnan(size) for sizes in a.chunks for size in sizes):
        raise ValueError(
            f"The sizes of the chunks of a must be known, got {a.chunks}. Call "
            "a.compute_chunk_sizes() first."
        )
    if min(a.shape) < 1:
        raise ValueError(f"a must have at least one row and one column, got shape {a.shape}.")
    _check_kind(a)
    return Matrix(lowered(a))


def _check_kind(a):
    if hasattr(meta_of(a), "tocsr") or hasattr(meta_of(a), "nnz"):
        raise TypeError(
            "Sparse chunks were passed, but dense data is required. Use "
            "gpuml_dask.decomposition.TruncatedSVD, or a.map_blocks(lambda x: x.toarray())."
        )
    if isinstance(meta_of(a), np.ma.MaskedArray):
        raise TypeError(
            "Masked chunks were passed. Pack small codes with gpuml.encodings.pack, which takes "
            "masked values as missing, or fill them: a.map_blocks(np.ma.filled)."
        )
    if a.dtype.kind not in "fiub":
        raise TypeError(f"a must hold real numbers, got the dtype {a.dtype}.")


def check_iterator(iterator: str) -> None:
    """Refuse an iterator that Dask does not know either."""
    if iterator not in ITERATORS:
        raise ValueError(f"iterator must be one of {ITERATORS}, got {iterator!r}.")


def seed_of(seed: Any, random_state: Any) -> int:
    """One integer for all that is random: a given integer, or one drawn from a given generator."""
    if seed is not None and random_state is not None:
        raise ValueError("seed and random_state mean the same; pass one of them.")
    given = random_state if seed is None else seed
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        check_random_state(given)
        return int(given)
    if isinstance(given, da.random.RandomState):
        return int(given.randint(0, SEEDS, size=1, chunks=1).compute(scheduler="synchronous")[0])
    if isinstance(given, da.random.Generator):
        return int(given.integers(0, SEEDS, size=1, chunks=1).compute(scheduler="synchronous")[0])
    random = checked_random(given)
    draw = random.integers if isinstance(random, np.random.Generator) else random.randint
    return int(draw(0, SEEDS))
