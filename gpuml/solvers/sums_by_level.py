"""Sums of rows by level, for columns that ridge regression eliminates."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from gpuml._arrays import move, to_host
from gpuml._arrays.grams import add_gram
from gpuml.data import take
from gpuml.designs import Coded, Columns, Dense
from gpuml.solvers.described import Described
from gpuml.solvers.table_rows import TableBatch

# The limit for sums in memory; with more levels the rows are read again.
SUM_BYTES = 2**28
# If one in so many levels has a unique number of rows, or more, alphas are solved in turn.
FEW_ALIKE = 4


@dataclass(frozen=True)
class LevelSums:
    """Sums of rows ``[x - c, y - d, 1]`` by level, of each atom about its own shift.

    Attributes
    ----------
    first : int
        The first of these levels.
    sums : array (A, L, q)
    shifts : array (A, q - 1)
    """

    first: int
    sums: np.ndarray
    shifts: np.ndarray

    def of(self, counts: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Sums (L, q) of one part, which has each atom so often, about its own shift (q - 1,)."""
        own = np.flatnonzero(counts)  # other atoms may have nan
        total = np.zeros(self.sums.shape[1:])
        for a in own:
            total += self.sums[a] if counts[a] == 1 else counts[a] * self.sums[a]
        apart = counts[own, None] * (self.shifts[own] - shift)
        total[:, :-1] += self.sums[own, :, -1].T @ apart
        return total


def add_shares(total, sums, alphas):
    """Add ``sum_l s_l s_l' / (n_l + alpha)`` for sums (L, q), whose last column are the n_l."""
    sums = sums[sums[:, -1] > 0]
    n_rows = np.unique(sums[:, -1])
    if FEW_ALIKE * len(n_rows) > len(sums):
        for u, alpha in enumerate(alphas):
            add_gram(total[u], sums / np.sqrt(sums[:, -1:] + alpha))
        return
    order = np.argsort(sums[:, -1], kind="stable")
    ends = [*np.searchsorted(sums[order, -1], n_rows), len(sums)]
    sums = sums[order]
    for n, start, stop in zip(n_rows, ends[:-1], ends[1:], strict=True):
        gram = add_gram(np.zeros(total.shape[1:]), sums[start:stop])
        total += gram / (n + alphas)[:, None, None]


def level_sums(described: Described, index: int, column: int = 0) -> Iterator[LevelSums]:
    """Sums by level of a column apart, of as many levels at once as memory is for; few are kept."""
    folds, batch = described.folds, cast(TableBatch, described.folds.batch)
    n_levels = cast(Coded, batch.apart).n_levels[column]
    q = batch.n_features + batch.y.shape[1] + 1
    n_atoms = len(folds.partitions[index].atoms)
    size = max(1, SUM_BYTES // (8 * n_atoms * q))
    if size < n_levels:
        for first in range(0, n_levels, size):
            yield _sums(described, index, column, first, min(first + size, n_levels))
        return
    key = "levels", index, column
    if key not in folds.known:
        folds.known[key] = _sums(described, index, column, 0, n_levels)
    yield folds.known[key]


def _sums(described, index, column, first, stop):
    batch, atoms = described.folds.batch, described.folds.partitions[index].atoms
    p, q = batch.n_features, described.moments[index].gram.shape[-1]
    shifts = np.array(np.broadcast_to(described.moments[index].shift, (len(atoms), q - 1)))
    xp, apart = batch.work.xp, batch.table.design_apart()
    codes, n_levels = apart.codes[column], apart.n_levels[column]
    found = np.zeros((len(atoms), stop - first, q))
    for a, atom in enumerate(atoms):
        numbers = take(batch.X, atom, xp)
        y = take(batch.y, atom, xp) - move(shifts[a, p:], batch.work)
        weight = None if batch.weight is None else take(batch.weight, atom, xp)
        own = xp.astype(take(codes, numbers[:, 0], xp), xp.int64)
        if stop - first < n_levels:
            some = xp.nonzero((own >= first) & (own < stop))[0]
            numbers, y, own = (take(each, some, xp) for each in (numbers, y, own))
            weight = None if weight is None else take(weight, some, xp)
        ones = xp.ones((y.shape[0], 1), dtype=xp.float64, device=batch.work.device)
        weight = ones[:, 0] if weight is None else xp.astype(weight, xp.float64)
        levels = Coded((own - first,), (stop - first,), xp.float64)
        near = cast(Columns, batch.about(numbers, shifts[a, :p])).parts
        rest = Dense(xp.concat([xp.astype(y, xp.float64), ones], axis=1), batch.work)
        X = [levels.cross(one, weight[None, :])[0, ...] for one in (*near, rest)]
        found[a] = to_host(xp.concat(X, axis=1))
    return LevelSums(first, found, shifts)
