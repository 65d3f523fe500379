"""Frozen records of what a solver is given: rows, and how splits divide them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, place_of

# Rows are named by a slice where they are neighbours (a view) and by host indices where not.
Rows = slice | np.ndarray


def count_rows(rows: Rows) -> int:
    """Number of rows that a slice with bounds, or an index array, names."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


@dataclass(frozen=True)
class Batch:
    """Rows to fit: features (n, p), targets (n,) or (n, t), and non-negative weights (n,) or None.

    The three live in one place. `home` is the place that the user's X came from: results go back
    there.
    """

    X: Array
    y: Array
    weight: Array | None
    home: Place

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def place(self) -> Place:
        return place_of(self.X)


@dataclass(frozen=True)
class Split:
    """Training and held-out rows of one split, in the splitter's order."""

    train: Rows
    test: Rows


@dataclass(frozen=True)
class Partition:
    """Atoms of rows that a run of splits treats alike.

    Row ``i`` of `train` says how many times each atom is in the training part of split
    ``first_split + i`` (0 or 1, more where a splitter repeats rows); `test` says it of the
    held-out part. Sums over atoms are therefore sums over parts: ``train @ atom_sums``.
    """

    first_split: int
    atoms: tuple[Rows, ...]
    train: np.ndarray
    test: np.ndarray

    @property
    def n_splits(self) -> int:
        return self.train.shape[0]


@dataclass(frozen=True)
class Folds:
    """A batch of rows with its splits, and the same splits as sums of atoms."""

    batch: Batch
    splits: tuple[Split, ...]
    partitions: tuple[Partition, ...]

    @property
    def n_splits(self) -> int:
        return len(self.splits)


def whole(batch: Batch) -> Folds:
    """One split that trains on every row and holds out none."""
    rows = slice(0, batch.n_rows)
    atom = Partition(0, (rows,), np.ones((1, 1), dtype=int), np.zeros((1, 1), dtype=int))
    return Folds(batch, (Split(rows, slice(0, 0)),), (atom,))


def take(x: Any, rows: Rows, xp: Any) -> Array:
    """The named rows of an array: a view for a slice, a gather for indices."""
    if isinstance(rows, slice):
        return x[rows, ...]
    index = xp.asarray(rows, device=None if xp.__name__.endswith("numpy") else place_of(x).device)
    return xp.take(x, index, axis=0)
