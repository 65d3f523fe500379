"""Medians of columns over training parts whose rows are divided, exact, in two readings.

The first reading takes a sample, which says about where the medians are. The second one counts the
values below, by atom, and brings the few that are near.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml.data import Folds, Rows, atoms_here
from gpuml.solvers.table_rows import TableBatch

SAMPLE_ROWS = 2**17
# By how many standard errors of the sample a median may be off, at first.
ERRORS = 4.0


class Near(NamedTuple):
    """How many values of atoms and columns (A, k) are known, and below a bound; those near it."""

    known: np.ndarray
    below: np.ndarray
    values: list[list[Array]]


def part_medians(folds: Folds, columns: Sequence[int]) -> tuple[np.ndarray, int]:
    """Medians (S + 1, k) over training parts, and over all rows, and how many readings it took.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    columns : sequence of k ints
        Of numbers. Missing values do not count; of a part without others the median is 0.
    """
    batch, k = folds.batch, len(columns)
    atoms = tuple(atom for partition in folds.partitions for atom in partition.atoms)
    counts = atom_counts(folds)
    step = max(1, batch.n_rows // SAMPLE_ROWS)

    def read(low, high, step):
        found = batch.total(_near, atoms, columns, low, high, step, combine=_joined, here=folds)
        values = [[to_host(each) for each in own] for own in found.values]
        return Near(to_host(found.known), to_host(found.below), values)

    sample = read(np.full(k, -np.inf), np.full(k, np.inf), step)
    if step == 1:
        return _medians(sample, counts), 1
    n_readings, errors = 1, ERRORS
    while True:
        low, high = _brackets(sample, counts, errors)
        found = _medians(read(low, high, 1), counts)
        n_readings, errors = n_readings + 1, 4 * errors
        if not np.isnan(found).any():
            return found, n_readings


def atom_counts(folds: Folds) -> np.ndarray:
    """How often (S + 1, A) each atom of all partitions is in each training part and all rows."""
    sizes = [len(partition.atoms) for partition in folds.partitions]
    ends = np.cumsum([0, *sizes])
    counts = np.zeros((folds.n_splits + 1, ends[-1]), dtype=np.int64)
    for partition, first, stop in zip(folds.partitions, ends[:-1], ends[1:], strict=True):
        start = partition.first_split
        counts[start : start + partition.n_splits, first:stop] = partition.train
    counts[-1, : sizes[0]] = 1
    return counts


def _near(
    folds: Folds,
    atoms: tuple[Rows, ...],
    columns: Sequence[int],
    low: np.ndarray,
    high: np.ndarray,
    step: int,
) -> Near:
    table = cast(TableBatch, folds.batch).table
    known = np.zeros((len(atoms), len(columns)), dtype=np.int64)
    below = np.zeros_like(known)
    found: list[list[Array]] = []
    for a, rows in enumerate(atoms_here(folds, atoms)):
        found.append([])
        for c, column in enumerate(columns):
            values = table.known(column, rows)
            xp = namespace(values)
            known[a, c] = values.shape[0]
            if np.isfinite(low[c]):
                below[a, c] = int(xp.sum(xp.astype(values < low[c], xp.int64)))
            near = (values >= low[c]) & (values <= high[c])
            found[-1].append(xp.asarray(values[near][::step], copy=True))
    return Near(known, below, found)


def _joined(one: Near, other: Near) -> Near:
    pairs = zip(one.values, other.values, strict=True)
    values = [[namespace(a).concat([a, b]) for a, b in zip(*pair, strict=True)] for pair in pairs]
    return Near(one.known + other.known, one.below + other.below, values)


def _values_of_part(near: Near, counts: np.ndarray, column: int) -> np.ndarray:
    """Values of a column that are near, sorted, as often as they are in a part."""
    own = [np.repeat(near.values[a][column], counts[a]) for a in np.flatnonzero(counts)]
    return np.sort(np.concatenate(own))


def _brackets(sample: Near, counts: np.ndarray, errors: float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds (k,) and (k,) between which the medians of all parts are, most probably."""
    low, high = [], []
    for c in range(sample.known.shape[1]):
        ends: list[tuple[Any, Any]] = []
        for own in counts:
            values = _values_of_part(sample, own, c)
            middle, away = len(values) / 2, 1 + errors * len(values) ** 0.5 / 2
            first, last = int(middle - away), int(middle + away) + 1
            ends.append(
                (
                    values[first] if first > 0 else -np.inf,
                    values[last] if last < len(values) else np.inf,
                )
            )
        low.append(min(first for first, _ in ends))
        high.append(max(last for _, last in ends))
    return np.asarray(low), np.asarray(high)


def _medians(near: Near, counts: np.ndarray) -> np.ndarray:
    """Medians (S + 1, k), nan where they are not among the values that are near."""
    totals, below = counts @ near.known, counts @ near.below
    found = np.zeros(totals.shape)
    for (s, c), n in np.ndenumerate(totals):
        if n == 0:
            continue
        values = _values_of_part(near, counts[s], c)
        first, last = (n - 1) // 2 - below[s, c], n // 2 - below[s, c]
        fine = first >= 0 and last < len(values)
        found[s, c] = np.mean(values[[first, last]]) if fine else np.nan
    return found
