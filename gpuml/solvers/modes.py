"""Most frequent values of columns over training parts whose rows are divided, exact, in a reading.

Each holder counts the values of every atom, so that few values are few numbers on their way.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from gpuml._arrays import namespace, to_host
from gpuml.data import Folds, NeedsAllRows, Rows, atoms_here
from gpuml.solvers.medians import atom_counts
from gpuml.solvers.table_rows import TableBatch

# Different values of a column, in all rows.
MOST_VALUES = 2**17


class Counted(NamedTuple):
    """Values of a column, sorted, and how many rows of an atom have one of them.

    ``counts[i]`` rows of atom ``atoms[i]`` have the value ``values[places[i]]``.
    """

    values: np.ndarray
    places: np.ndarray
    atoms: np.ndarray
    counts: np.ndarray


def part_modes(folds: Folds, columns: Sequence[int]) -> tuple[np.ndarray, int]:
    """The most frequent values (S + 1, k) over training parts and all rows, and one reading.

    Parameters
    ----------
    folds : Folds
        Of a `TableBatch`.
    columns : sequence of k ints
        Of numbers. Missing values do not count. Of several values it is the smallest, and 0 of a
        part without any.

    Raises
    ------
    NeedsAllRows
        If a column has too many different values.
    """
    atoms = tuple(atom for partition in folds.partitions for atom in partition.atoms)
    found = folds.batch.total(_values, atoms, columns, combine=_joined, here=folds)
    times = atom_counts(folds)
    modes = np.zeros((len(times), len(columns)))
    for c, each in enumerate(found):
        values, places, own, counts = map(to_host, each)
        for s, of_part in enumerate(times):
            n_rows = np.bincount(places, of_part[own] * counts, len(values))
            if n_rows.any():
                modes[s, c] = values[n_rows.argmax()]
    return modes, 1


def _values(folds: Folds, atoms: tuple[Rows, ...], columns: Sequence[int]) -> list[Counted]:
    table, rows_of = cast(TableBatch, folds.batch).table, atoms_here(folds, atoms)
    found = []
    for column in columns:
        parts = []
        for a, rows in enumerate(rows_of):
            known = table.known(column, rows)
            values, counts = map(to_host, namespace(known).unique_counts(known))
            parts.append(Counted(values, np.arange(len(values)), np.full(len(values), a), counts))
        found.append(_merged(parts))
    return found


def _joined(one: list[Counted], other: list[Counted]) -> list[Counted]:
    return [_merged(pair) for pair in zip(one, other, strict=True)]


def _merged(parts: Sequence[Counted]) -> Counted:
    """The same of several parts of the rows."""
    every = [Counted(*map(to_host, part)) for part in parts]
    firsts = np.cumsum([0, *(len(part.values) for part in every[:-1])])
    values, numbers = np.unique(np.concatenate([p.values for p in every]), return_inverse=True)
    if len(values) > MOST_VALUES:
        raise NeedsAllRows(
            "SimpleImputer with strategy='most_frequent' of numbers with more than "
            f"{MOST_VALUES:,} values needs all rows in one place; set strategy='mean' or 'median'."
        )
    at = [first + part.places for first, part in zip(firsts, every, strict=True)]
    places, atoms = numbers[np.concatenate(at)], np.concatenate([part.atoms for part in every])
    n_atoms = atoms.max(initial=0) + 1
    pairs, number = np.unique(places * n_atoms + atoms, return_inverse=True)
    counts = np.bincount(number, np.concatenate([part.counts for part in every]), len(pairs))
    return Counted(values, pairs // n_atoms, pairs % n_atoms, counts.astype(np.int64))
