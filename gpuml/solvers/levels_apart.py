r"""Ridge regression with categories of too many levels for sums over pairs.

The objective is that of `solvers.ridge`, of models :math:`W x_i + g_{l(i)} + b` with a coefficient
for each level l of one column, penalised like all others. Levels exclude each other, so that their
block of the normal equations is diagonal: with :math:`n_l` rows of a level, and
:math:`s_l = \sum_{i \in l} [x_i, y_i, 1]`,

.. math:: g_l = (s_l^y - W s_l^x - b\, n_l) / (n_l + \alpha) .

What is left for W and b has the second moments
:math:`\sum_i z_i z_i' - \sum_l s_l s_l' / (n_l + \alpha)`, a Schur complement [1]_, which takes the
place of those of the rows. Levels with the same number of rows are subtracted together, for all
alphas at once. Of several such columns `solvers.crossed_levels` eliminates the largest.

References
----------
.. [1] S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992), section 7.2.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from gpuml._arrays.grams import full_symmetric
from gpuml._arrays.ops import EPS, solve_shifted
from gpuml._arrays.threads import one_blas_thread
from gpuml.designs import Coded
from gpuml.solvers._blocks import quiet
from gpuml.solvers._result import LinearModels, Status, joined
from gpuml.solvers.affine import pulled_back, transformed
from gpuml.solvers.crossed_levels import solve_crossed
from gpuml.solvers.described import Described, Training
from gpuml.solvers.moments import Moments, normal_equations
from gpuml.solvers.sums_by_level import add_shares, level_sums
from gpuml.solvers.table_rows import TableBatch


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
        Of a `TableBatch` with columns apart.
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
    batch = cast(TableBatch, described.folds.batch)
    solve = _solve_parts if len(cast(Coded, batch.apart).codes) == 1 else solve_crossed
    with one_blas_thread():
        parts = [solve(described, part, distinct, fit_intercept) for part in jobs]
    models, position = joined(parts, axis=1), position.reshape(alphas.shape)
    coef, intercept = (_of_candidates(a, position) for a in (models.coef, models.intercept))
    return LinearModels(coef, intercept, models.status[position[:, 0]])


def _of_candidates(found, position):
    """From distinct alphas (U, S, t, ...) to candidates: `position` (C, t) or (C, 1)."""
    if position.shape[1] == 1:
        return found[position[:, 0]]
    return np.stack([found[own, :, k] for k, own in enumerate(position.T)], axis=2)


def _solve_parts(described, part, alphas, fit_intercept):
    moments = described.sums(part.index, part.counts)
    n_parts, q = moments.gram.shape[:2]
    shifts = np.broadcast_to(moments.shift, (n_parts, q - 1))
    taken = np.zeros((len(alphas), *moments.gram.shape))
    for own in level_sums(described, part.index):
        for s, counts in enumerate(part.counts):
            add_shares(taken[:, s], own.of(counts, shifts[s]), alphas)
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
            f"alpha={alpha:g} is too small for so many levels: digits are lost. Search larger "
            "values, or group rare levels (min_frequency)."
        )
    return coef, normal.y_mean - (coef * normal.x_mean[:, None, :]).sum(axis=-1)


def _levels(described, part, shifts, alphas, near):
    """Coefficients (U, S, t, L) of all levels; `near` are models of the columns that are read."""
    coef, intercept = near
    n_alphas, n_parts, t, p = coef.shape
    found = []
    for own in level_sums(described, part.index):
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
