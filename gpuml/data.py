"""Frozen records of what a solver is given: rows, and how splits divide them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, compute_place, fits, move, nbytes, place_of

# Rows are named by a slice where they are neighbours (a view), by a tuple of slices where they are
# a few such runs, and by host indices where not.
Rows = slice | tuple[slice, ...] | np.ndarray


def count_rows(rows: Rows) -> int:
    """Number of rows that a set of rows names."""
    if isinstance(rows, slice):
        return rows.stop - rows.start
    if isinstance(rows, tuple):
        return sum(count_rows(run) for run in rows)
    return len(rows)


def row_indices(rows: Rows) -> np.ndarray:
    """The same rows as an index array."""
    if isinstance(rows, slice):
        return np.arange(rows.start, rows.stop)
    if isinstance(rows, tuple):
        return np.concatenate([row_indices(run) for run in rows])
    return rows


def cut(rows: Rows, size: int) -> Iterator[Rows]:
    """Pieces of at most `size` rows, in order."""
    if isinstance(rows, tuple):
        for run in rows:
            yield from cut(run, size)
        return
    n = count_rows(rows)
    for start in range(0, n, size):
        stop = min(start + size, n)
        if isinstance(rows, slice):
            yield slice(rows.start + start, rows.start + stop)
        else:
            yield rows[start:stop]


@dataclass(frozen=True)
class Batch:
    """Rows to fit: features (n, p), targets (n, t), and non-negative weights (n,) or None.

    The three live in one place. `work` is where to compute: the same place, or a device that the
    rows are brought to block by block because all of them would not fit. `home` is the place that
    the user's X came from: results go back there. `y_is_flat` says that the user's y had one axis.
    """

    X: Array
    y: Array
    weight: Array | None
    work: Place
    home: Place
    y_is_flat: bool = False

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]


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


def resident(X: Array, y: Array, weight: Array | None, setting: str) -> Batch:
    """A batch at the place where the settings want it worked on, moved there if it fits.

    Parameters
    ----------
    X, y, weight : arrays (n, p), (n,) or (n, t), (n,) or None
        Of one library and device.
    setting : {"auto", "cpu", "cuda"}
        The configured device for host data.
    """
    home = place_of(X)
    work = compute_place(X, nbytes(X), setting)
    y_is_flat = y.ndim == 1
    y = y[:, None] if y_is_flat else y
    if work != home and fits(sum(nbytes(a) for a in (X, y, weight) if a is not None), work):
        X, y, weight = move(X, work), move(y, work), move(weight, work)
    return Batch(X, y, weight, work, home, y_is_flat)


def take(x: Any, rows: Rows, xp: Any) -> Array:
    """The named rows of an array: a view for a slice, else a copy."""
    if isinstance(rows, slice):
        return x[rows, ...]
    if isinstance(rows, tuple):
        return xp.concat([x[run, ...] for run in rows], axis=0)
    index = xp.asarray(rows, device=None if xp.__name__.endswith("numpy") else place_of(x).device)
    return xp.take(x, index, axis=0)
