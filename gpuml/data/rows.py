"""Sets of rows: which of them, wherever they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from gpuml._arrays import Array, is_array, move, place_of, to_host


class NeedsAllRows(ValueError):
    """What was asked for is no sum over rows, and the rows are divided over several holders."""


# Functions that read targets and weights alone; see `without_features`.
_WITHOUT_FEATURES: set[Any] = set()


def without_features(function: Any) -> Any:
    """A decorator of functions of `Folds` or of rows of a solver that do not read X.

    Where rows are read from a file for each sum, nothing is read for these.
    """
    _WITHOUT_FEATURES.add(function)
    return function


def reads_features(function: Any) -> bool:
    """Whether a function may read X."""
    return function not in _WITHOUT_FEATURES


@dataclass(frozen=True)
class Elsewhere:
    """Rows that pieces elsewhere have: how many they are, and what they are called there.

    The name is ``("atom", partition, atom)``, ``("train", split)`` or ``("test", split)``; see
    `rows_here`.
    """

    n_rows: int
    name: tuple


# Rows are named by a slice where they are neighbours (a view), by a tuple of slices where they are
# a few such runs, by an index array, on the host or a device, where not, and by a name where this
# process does not have them.
Rows = slice | tuple[slice, ...] | Array | Elsewhere


def count_rows(rows: Rows) -> int:
    """Number of rows that a set of rows names."""
    if isinstance(rows, Elsewhere):
        return rows.n_rows
    if isinstance(rows, slice):
        return rows.stop - rows.start
    if isinstance(rows, tuple):
        return sum(count_rows(run) for run in rows)
    return rows.shape[0]


def row_indices(rows: Rows) -> np.ndarray:
    """The same rows as an index array."""
    if isinstance(rows, slice):
        return np.arange(rows.start, rows.stop)
    if isinstance(rows, tuple):
        return np.concatenate([row_indices(run) for run in rows])
    return to_host(rows)


@overload
def cut(rows: slice, size: int) -> Iterator[slice]: ...
@overload
def cut(rows: Rows, size: int) -> Iterator[Rows]: ...
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
        elif isinstance(rows, Elsewhere):
            raise NeedsAllRows("Rows that are elsewhere are not read block by block.")
        else:
            yield rows[start:stop]


def every(rows: Rows, step: int) -> Rows:
    """One row in `step` of a set (of each run of one)."""
    if isinstance(rows, slice):
        return slice(rows.start, rows.stop, step)
    if isinstance(rows, tuple):
        return tuple(slice(run.start, run.stop, step) for run in rows)
    if isinstance(rows, Elsewhere):
        raise NeedsAllRows("Rows that are elsewhere are not read one by one.")
    return rows[::step]


def spaced(offset: int, step: int, first: int, n_rows: int) -> slice:
    """One row in `step` of all rows, from number `offset` on, in a piece that begins at `first`."""
    # The array standard has no slices that begin beyond the end.
    return slice(min((offset - first) % step, n_rows), None, step)


def take(x: Any, rows: Rows, xp: Any) -> Array:
    """The named rows of an array: a view for a slice, else a copy."""
    if isinstance(rows, slice):
        return x[rows, ...]
    if isinstance(rows, tuple):
        return xp.concat([x[run, ...] for run in rows], axis=0)
    index = move(rows if is_array(rows) else np.asarray(rows), place_of(x))
    return xp.take(x, index, axis=0)
