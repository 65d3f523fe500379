"""Ridge regression of sparse rows with few features, from second moments of the atoms of rows.

Moments are summed from products of the sparse rows, transposed, with dense copies of small blocks
of them: no more of the rows is ever dense.
"""

from collections.abc import Callable

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml._arrays.ops import constant, zeros
from gpuml.data import Folds, count_rows, cut, take
from gpuml.designs._sparse_ops import as_dense, times, transposed
from gpuml.designs.sparse import float64_matrix
from gpuml.solvers.moments import Moments, normal_equations
from gpuml.solvers.ridge import EIGEN_FROM_ALPHAS, _solve_cholesky, _solve_eigen
from gpuml.solvers.sparse_rows import SparseBatch

# Dense workspace for a block of rows.
CPU_DENSE_BYTES = 2**23
GPU_DENSE_BYTES = 2**28
SMALLEST_BLOCK_ROWS = 64


def sparse_moments(
    folds: Folds, advance: Callable[[int], None] | None = None
) -> tuple[Moments, ...]:
    """Moments of the atoms of each partition, about zero: a shift would make rows dense."""
    if "sparse moments" not in folds.known:
        folds.known["sparse moments"] = tuple(
            _of_atoms(folds.batch, part.atoms, advance) for part in folds.partitions
        )
    return folds.known["sparse moments"]


def _of_atoms(batch, atoms, advance):
    xp = batch.work.xp
    p, t = batch.n_features, batch.y.shape[1]
    bound = CPU_DENSE_BYTES if batch.work.is_host else GPU_DENSE_BYTES
    size = max(SMALLEST_BLOCK_ROWS, bound // (8 * (p + t + 1)))
    grams = []
    for atom in atoms:
        total = zeros((p + t + 1, p + t + 1), like=batch.y, xp=xp)
        for rows in cut(atom, size):
            total = total + _gram(batch, rows, xp)
            if advance is not None:
                advance(count_rows(rows))
        grams.append(total)
    return Moments(xp.stack(grams), zeros((p + t,), like=batch.y, xp=xp), p)


def _gram(batch: SparseBatch, rows, xp) -> Array:
    """``[X, y, 1]' W [X, y, 1]`` of a block of rows, float64."""
    X = float64_matrix(batch.rows(take(batch.X, rows, xp)))
    y = xp.astype(take(batch.y, rows, xp), xp.float64, copy=False)
    rest = xp.concat([y, xp.ones_like(y[:, :1])], axis=1)
    weighted = xp.concat([as_dense(X), rest], axis=1)
    if batch.weight is not None:
        weight = xp.astype(take(batch.weight, rows, xp), xp.float64, copy=False)
        weighted = weighted * weight[:, None]
    top = times(transposed(X), weighted)  # (p, q)
    p = top.shape[0]
    square = (top[:, :p] + top[:, :p].T) / 2
    corner = rest.T @ weighted[:, p:]
    upper = xp.concat([square, top[:, p:]], axis=1)
    return xp.concat([upper, xp.concat([top[:, p:].T, corner], axis=1)], axis=0)


def solve_moments(
    moments: Moments, alphas: np.ndarray, fit_intercept: bool
) -> tuple[Array, Array, np.ndarray]:
    """Models of each alpha (U,) from moments (S, q, q) of training parts.

    Returns
    -------
    coef : array (U, S, t, p)
    intercept : array (U, S, t)
    error : ndarray (U, S), host
        Estimates of the relative error of the coefficients.
    """
    xp = namespace(moments.gram)
    normal = normal_equations(moments, fit_intercept)
    by_eigen = len(alphas) >= EIGEN_FROM_ALPHAS
    coef, error = (_solve_eigen if by_eigen else _solve_cholesky)(normal, alphas, None)
    intercept = normal.y_mean - xp.sum(coef * normal.x_mean[:, None, :], axis=-1)
    # Centring moments about zero cancels digits of features whose mean is far from it, unless the
    # penalty makes up for that.
    size = moments.gram[:, -1:, -1] * normal.x_mean**2
    left = xp.linalg.diagonal(normal.xx) + constant(alphas, like=size, xp=xp)[:, None, None]
    lost = xp.max(size / xp.where(left > 0, left, xp.ones_like(left)), axis=-1)
    lost = xp.where(lost > 1, lost, xp.ones_like(lost))
    return coef, intercept, to_host(error * lost)
