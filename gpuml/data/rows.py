"""Sets of rows: slices, runs, index arrays, and names of rows elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from gpuml._arrays import Array, is_array, move, place_of, to_host


class NotTogether(ValueError):
    """Models of these rows are fitted one by one, which is no error; the text says why."""


class NeedsAllRows(NotTogether):
    """The rows are divided over several holders, and the computation is no sum over rows."""


# Functions that read only targets and weights; see `without_features`.
_WITHOUT_FEATURES: set[Any] = set()


def without_features(function: Any) -> Any:
    """Decorate a function of `Folds`, or of a solver's rows, that does not read X.

    If each sum reads its rows from a file, these functions read nothing.
    """
    _WITHOUT_FEATURES.add(function)
    return function


def reads_features(function: Any) -> bool:
    """Whether a function may read X."""
    return function not in _WITHOUT_FEATURES


@dataclass(frozen=True)
class Elsewhere:
    """Rows of pieces elsewhere: their number, and their name there.

    The name is ``("atom", partition, atom)``, ``("train", split)`` or ``("test", split)``; see
    `rows_here`.
    """

    n_rows: int
    name: tuple


# Consecutive rows are a slice (a view), a few such runs a tuple of slices, other rows an index
# array in CPU or GPU memory; rows that this process does not have are a name.
Rows = slice | tuple[slice, ...] | Array | Elsewhere


def count_rows(rows: Rows) -> int:
    """The number of rows in a set."""
    if isinstance(rows, Elsewhere):
        return rows.n_rows
    if isinstance(rows, slice):
        return rows.stop - rows.start
    if isinstance(rows, tuple):
        return sum(count_rows(run) for run in rows)
    return rows.shape[0]


def row_indices(rows: Rows) -> np.ndarray:
    """The rows as an index array."""
    if isinstance(rows, slice):
        return np.arange(rows.start, rows.stop, rows.step)
    if isinstance(rows, tuple):
        return np.concatenate([row_indices(run) for run in rows])
    return to_host(rows)


@overload
def cut(rows: slice, size: int) -> Iterator[slice]: ...
@overload
def cut(rows: Rows, size: int) -> Iterator[Rows]: ...
def cut(rows: Rows, size: int) -> Iterator[Rows]:
    """Sets of at most `size` rows, in order."""
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
    """Every `step`-th row of a set (of each run of it)."""
    if isinstance(rows, slice):
        return slice(rows.start, rows.stop, step)
    if isinstance(rows, tuple):
        return tuple(slice(run.start, run.stop, step) for run in rows)
    if isinstance(rows, Elsewhere):
        raise NeedsAllRows("Rows that are elsewhere are not read one by one.")
    return rows[::step]


def spaced(offset: int, step: int, first: int, n_rows: int) -> slice:
    """Every `step`-th of all rows from row `offset` on, in a piece that begins with row `first`."""
    # The array standard has no slices that begin after the end.
    return slice(min((offset - first) % step, n_rows), None, step)


def take(x: Any, rows: Rows, xp: Any) -> Array:
    """The selected rows of an array: a view for a slice, else a copy."""
    if isinstance(rows, slice):
        return x[rows, ...]
    if isinstance(rows, tuple):
        return xp.concat([x[run, ...] for run in rows], axis=0)
    index = move(rows if is_array(rows) else np.asarray(rows), place_of(x))
    return xp.take(x, index, axis=0)
