r"""Ridge regression with categories of so many levels that no sums over pairs of them are taken.

The objective is that of `solvers.ridge`, of models :math:`W x_i + g_{l(i)} + b` with a coefficient
for each level l of one column, penalised like all others. Levels exclude each other, so that their
block of the normal equations is diagonal: with :math:`n_l` rows of a level, and
:math:`s_l = \sum_{i \in l} [x_i, y_i, 1]`,

.. math:: g_l = (s_l^y - W s_l^x - b\, n_l) / (n_l + \alpha) .

What is left for W and b has the second moments
:math:`\sum_i z_i z_i' - \sum_l s_l s_l' / (n_l + \alpha)`, a Schur complement [1]_, which takes the
place of those of the rows. Levels with the same number of rows are subtracted together, for all
alphas at once.

References
----------
.. [1] S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992), section 7.2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from gpuml._arrays import move, to_host
from gpuml._arrays.ops import EPS, add_gram, full_symmetric, solve_shifted
from gpuml._arrays.threads import one_blas_thread
from gpuml.data import take
from gpuml.designs import Coded, Columns, Dense
from gpuml.solvers._blocks import quiet
from gpuml.solvers._result import LinearModels, Status, joined
from gpuml.solvers.affine import pulled_back, transformed
from gpuml.solvers.described import Described, Training
from gpuml.solvers.moments import Moments, normal_equations
from gpuml.solvers.table_rows import TableBatch

# Sums of so many bytes are held at once; of more levels the rows are read again.
SUM_BYTES = 2**28
# One of so many levels has a number of rows to itself, or more do: then alphas take turns.
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
        own = np.flatnonzero(counts)  # what others have may be no number
        total = np.zeros(self.sums.shape[1:])
        for a in own:
            total += self.sums[a] if counts[a] == 1 else counts[a] * self.sums[a]
        apart = counts[own, None] * (self.shifts[own] - shift)
        total[:, :-1] += self.sums[own, :, -1].T @ apart
        return total


def solve_apart(
    described: Described,
    jobs: Sequence[Training],
    alphas: np.ndarray,
    fit_intercept: bool,
) -> LinearModels:
    """Models of every alpha on some parts, with the coefficients of the levels behind all others.

    Parameters
    ----------
    described : Described
        Of a `TableBatch` with one column apart.
    jobs : sequence of Training
    alphas : ndarray (C, t) or (C, 1)
    fit_intercept : bool

    Raises
    ------
    ValueError
        For alphas that are zero, or so small that levels take all digits.
    """
    if not (alphas > 0).all():
        raise ValueError(
            "With alpha=0 and a column for each of many levels there are many solutions. Search "
            "alpha > 0."
        )
    distinct, position = np.unique(alphas, return_inverse=True)
    # Of hundreds of small products, each would wait for its threads.
    with one_blas_thread():
        parts = [_solve_parts(described, part, distinct, fit_intercept) for part in jobs]
    models, position = joined(parts, axis=1), position.reshape(alphas.shape)
    coef, intercept = (_of_candidates(a, position) for a in (models.coef, models.intercept))
    return LinearModels(coef, intercept, models.status[position[:, 0]])


def _of_candidates(found, position):
    """From distinct alphas (U, S, t, ...) to candidates: `position` (C, t) or (C, 1)."""
    if position.shape[1] == 1:
        return found[position[:, 0]]
    return np.stack([found[own, :, k] for k, own in enumerate(position.T)], axis=2)


def _solve_parts(described, part, alphas, fit_intercept):
    moments = described.moments[part.index].combine(part.counts)
    n_parts, q = moments.gram.shape[:2]
    shifts = np.broadcast_to(moments.shift, (n_parts, q - 1))
    taken = np.zeros((len(alphas), *moments.gram.shape))
    for own in _level_sums(described, part.index):
        for s, counts in enumerate(part.counts):
            _add_shares(taken[:, s], own.of(counts, shifts[s]), alphas)
    frame = described.folds.frame
    maps = None if frame is None else frame.of(part.splits)
    models = []
    for u, alpha in enumerate(alphas):
        left = moments.gram - full_symmetric(taken[u], np)
        noise = 8 * EPS * np.diagonal(moments.gram, axis1=1, axis2=2)
        reduced = Moments(left, shifts, moments.n_features, noise[:, :-1])
        reduced = reduced if maps is None else transformed(reduced, maps)
        lost = float((noise[:, -1] / np.maximum(left[:, -1, -1], np.finfo(float).tiny)).max())
        models.append(_solve(reduced, alpha, fit_intercept, lost, described.precision))
    coef, intercept = (np.stack(each) for each in zip(*models, strict=True))
    near = (coef, intercept) if maps is None else pulled_back(coef, intercept, maps)
    levels = _levels(described, part, shifts, alphas, near)
    status = np.full(coef.shape[:2], int(Status.MOMENTS))
    return LinearModels(np.concatenate([coef, levels], axis=-1), intercept, status)


def _add_shares(total, sums, alphas):
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


def _solve(reduced, alpha, fit_intercept, lost, precision):
    """Coefficients (S, t, p) and intercepts (S, t) from moments that the levels have left."""
    normal = normal_equations(reduced, fit_intercept)
    with quiet():
        found, condition = solve_shifted(normal.xx, np.asarray([alpha]), normal.xy, np)
    coef = np.swapaxes(found[0], -1, -2)
    damped = np.diagonal(normal.xx, axis1=-2, axis2=-1) + alpha
    error = max(lost, float((normal.noise / damped).max()), float(EPS * condition.max()))
    if not error <= precision:
        raise ValueError(
            f"alpha={alpha:g} is too small beside so many levels: digits are lost. Search larger "
            "values, or group rare levels (min_frequency)."
        )
    return coef, normal.y_mean - (coef * normal.x_mean[:, None, :]).sum(axis=-1)


def _levels(described, part, shifts, alphas, near):
    """Coefficients (U, S, t, L) of all levels; `near` are models of the columns that are read."""
    coef, intercept = near
    n_alphas, n_parts, t, p = coef.shape
    found = []
    for own in _level_sums(described, part.index):
        mine = np.empty((n_alphas, n_parts, t, own.sums.shape[1]))
        for s, counts in enumerate(part.counts):
            sums, shift = own.of(counts, shifts[s]), shifts[s]
            n_rows = sums[:, -1]
            # Residuals of models without levels, summed by level.
            offset = intercept[:, s] - shift[p:] + coef[:, s] @ shift[:p]  # (U, t)
            rest = sums[:, p:-1].T[None, ...] - coef[:, s] @ sums[:, :p].T
            rest -= offset[..., None] * n_rows
            mine[:, s] = rest / (n_rows + alphas[:, None])[:, None, :]
        found.append(mine)
    return np.concatenate(found, axis=-1)


def _level_sums(described: Described, index: int) -> Iterator[LevelSums]:
    """Sums by level, of as many levels at once as memory is for; few are kept."""
    folds, batch = described.folds, cast(TableBatch, described.folds.batch)
    n_levels, q = cast(Coded, batch.apart).shape[1], batch.n_features + batch.y.shape[1] + 1
    n_atoms = len(folds.partitions[index].atoms)
    size = max(1, SUM_BYTES // (8 * n_atoms * q))
    if size < n_levels:
        for first in range(0, n_levels, size):
            yield _sums(described, index, first, min(first + size, n_levels))
        return
    key = "levels", index
    if key not in folds.known:
        folds.known[key] = _sums(described, index, 0, n_levels)
    yield folds.known[key]


def _sums(described, index, first, stop):
    batch, atoms = described.folds.batch, described.folds.partitions[index].atoms
    p, q = batch.n_features, described.moments[index].gram.shape[-1]
    shifts = np.broadcast_to(described.moments[index].shift, (len(atoms), q - 1))
    xp, (codes,) = batch.work.xp, batch.table.design_apart().codes
    found = np.zeros((len(atoms), stop - first, q))
    for a, atom in enumerate(atoms):
        numbers = take(batch.X, atom, xp)
        y = take(batch.y, atom, xp) - move(shifts[a, p:], batch.work)
        weight = None if batch.weight is None else take(batch.weight, atom, xp)
        own = xp.astype(take(codes, numbers[:, 0], xp), xp.int64)
        if stop - first < batch.apart.shape[1]:
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
