"""Ridge regression of sparse rows by conjugate gradients: every alpha on every split together.

The objective is that of `solvers.ridge`. Each model is a column, so that an iteration [1]_ is one
product of the sparse rows with a dense matrix and one of their transpose. Rows are centred
implicitly, ``(X - 1 m') v = X v - 1 (m' v)``: they stay sparse.

References
----------
.. [1] A. Bjorck, "Numerical Methods for Least Squares Problems" (1996), section 7.4.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from gpuml._arrays import Array, device_of, free_bytes, namespace, to_host
from gpuml._arrays.ops import all_finite, constant
from gpuml._settings.config import current_settings
from gpuml.data import Folds, split_weights
from gpuml.designs._sparse_ops import times, transposed
from gpuml.designs.sparse import column_sums, float64_matrix, squared
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.sparse_rows import SparseBatch

# Gradients are to become smaller by this factor; rounding stops most of them not far below.
TOL = 1e-12
# Where rounding stops them earlier, this is what counts as a solution.
GOOD_ENOUGH = 1e-8
# Iterations without any progress after which it was rounding.
PATIENCE = 200
# Gradients that are so much larger than the smallest so far will not come back.
ASTRAY = 1e6
LEAST_MAX_ITER = 1000
# Vectors of the length of a model, and of the rows, that a column takes.
MODEL_VECTORS = 9
ROW_VECTORS = 5


@dataclass(frozen=True)
class CentredRows:
    """Rows and targets less their means over the training part of each split.

    Attributes
    ----------
    X : CSR matrix (n, u), float64
    transposed : matrix (u, n)
    y : array (n, t)
    weights : array (n, S) or None
        How much each row counts in each split; None for 1 everywhere.
    x_mean : array (u, S)
        Zero where no intercept is fitted.
    y_mean : array (t, S)
    spread : array (u, S)
        Sums of squares of the centred features.
    total : array (S,)
        Sums of the weights.
    centred : bool
        Whether an intercept is fitted.
    """

    X: Any
    transposed: Any
    y: Array
    weights: Array | None
    x_mean: Array
    y_mean: Array
    spread: Array
    total: Array
    centred: bool


def centred_rows(folds: Folds, fit_intercept: bool) -> CentredRows:
    """Means and spread of the training parts of a `SparseBatch`."""
    batch = cast(SparseBatch, folds.batch)
    xp = batch.work.xp
    X = float64_matrix(batch.all_rows())
    y = xp.astype(batch.y, xp.float64, copy=False)
    weights = _weights(folds)
    w = weights
    if w is None:
        w = xp.ones((batch.n_rows, 1), dtype=xp.float64, device=device_of(y))
    total = xp.sum(w, axis=0)
    spread = column_sums(squared(X), w)
    if fit_intercept:
        x_mean, y_mean = column_sums(X, w) / total, y.T @ w / total
        spread = spread - total * x_mean**2
        spread = xp.where(spread > 0, spread, xp.zeros_like(spread))
    else:
        x_mean, y_mean = xp.zeros_like(spread), xp.zeros_like(y.T @ w)
    if not all_finite(spread, xp):
        raise ValueError(
            "Squares of the values of X overflow float64. Scale the features (MaxAbsScaler, or "
            "divide by a power of ten)."
        )
    return CentredRows(X, transposed(X), y, weights, x_mean, y_mean, spread, total, fit_intercept)


def _weights(folds):
    """Weights (n, S) of the rows in the training part of each split, float64; None for all 1."""
    batch, xp = folds.batch, folds.batch.work.xp
    times_used = split_weights(folds)
    if batch.weight is None and times_used is None:
        return None
    own = None if batch.weight is None else xp.astype(batch.weight, xp.float64)[:, None]
    if times_used is None:
        return own
    counts = xp.astype(times_used, xp.float64).T
    return counts if own is None else counts * own


def solve_by_iterations(
    folds: Folds, alphas: np.ndarray, fit_intercept: bool, max_iter: int | None = None
) -> LinearModels:
    """Models of every alpha on the training part of every split.

    Parameters
    ----------
    folds : Folds
        Of a `SparseBatch`.
    alphas : ndarray (C, t) or (C, 1), host
    fit_intercept : bool
    max_iter : int, optional
        Bound on the iterations; None for many.

    Raises
    ------
    ValueError
        If squares of the values of X overflow.
    """
    rows = centred_rows(folds, fit_intercept)
    memory = current_settings().solver_bytes or free_bytes(folds.batch.work) // 4
    xp = namespace(rows.y)
    n, u = rows.X.shape
    n_candidates, n_splits, t = len(alphas), rows.x_mean.shape[1], rows.y.shape[1]
    shape = (n_candidates, n_splits, t)
    alpha = np.broadcast_to(alphas[:, None, :], shape).ravel()
    split, target = (
        np.broadcast_to(a, shape).ravel() for a in (np.arange(n_splits)[:, None], np.arange(t))
    )
    limit = max_iter or max(LEAST_MAX_ITER, 10 * min(n, u))
    per_column = 8 * (MODEL_VECTORS * u + ROW_VECTORS * n)
    size = max(1, memory // per_column)
    parts = []
    for first in range(0, len(alpha), size):
        some = slice(first, first + size)
        columns = _Columns.of(rows, alpha[some], split[some], target[some])
        parts.append(_solve_columns(columns, limit))
    coef = xp.concat([part[0] for part in parts], axis=0)
    n_iter, ratio = (np.concatenate([part[i] for part in parts]).reshape(shape) for i in (1, 2))
    coef = xp.reshape(coef, (*shape, u))
    intercept = rows.y_mean.T - xp.sum(coef * rows.x_mean.T[:, None, :], axis=-1)
    converged = (ratio <= GOOD_ENOUGH).all(axis=-1)
    status = np.where(converged, int(Status.ROWS), int(Status.STOPPED))
    return LinearModels(coef, intercept, status, n_iter)


@dataclass(frozen=True)
class _Columns:
    """Problems that are solved together, M of them as columns.

    `inverse` is the inverse diagonal of the normal equations, a preconditioner: features of very
    different scales do no harm. There is none where features outnumber rows, or without a penalty:
    plain iterations from zero never leave the row space, where the smallest eigenvalues are not,
    and lead to the solution of minimum norm.
    """

    rows: CentredRows
    weights: Array | None  # (n, M) or (n, 1)
    x_mean: Array  # (u, M)
    total: Array  # (M,)
    alpha: Array  # (M,)
    inverse: Array  # (u, M)
    target: Array  # (n, M)

    @classmethod
    def of(cls, rows, alpha, split, target):
        xp = namespace(rows.y)

        def pick(a, index):
            return xp.take(a, xp.asarray(index, device=device_of(a)), axis=1)

        w = rows.weights
        alpha = constant(alpha, like=rows.y, xp=xp)
        spread = pick(rows.spread, split)
        inverse = xp.ones_like(spread)
        if rows.X.shape[0] >= rows.X.shape[1]:
            inverse = xp.where(alpha > 0, spread + alpha, inverse)
        centred = pick(rows.y, target) - _entries(rows.y_mean, target, split)
        weights = w if w is None or w.shape[1] == 1 else pick(w, split)
        total = pick(rows.total[None, :], split)[0, :]
        return cls(rows, weights, pick(rows.x_mean, split), total, alpha, 1.0 / inverse, centred)

    def select(self, index: Array) -> "_Columns":
        """Some of the columns."""
        xp = namespace(index)
        names = ["x_mean", "inverse", "target"]
        if self.weights is not None and self.weights.shape[1] > 1:
            names.append("weights")
        some = {name: xp.take(getattr(self, name), index, axis=1) for name in names}
        some.update({n: xp.take(getattr(self, n), index, axis=0) for n in ("total", "alpha")})
        return replace(self, **some)

    def forward(self, V: Array) -> Array:
        """``(X - 1 m') V`` (n, M).

        What is taken off is the mean of the product itself: ``m' V`` is the same number with
        another rounding, which all rows would be off by together.
        """
        product = times(self.rows.X, V)
        if not self.rows.centred:
            return product
        return product - namespace(V).sum(self.weighted(product), axis=0) / self.total

    def weighted(self, R: Array) -> Array:
        """Rows times their weights."""
        return R if self.weights is None else R * self.weights

    def backward(self, R: Array) -> Array:
        """``(X - 1 m')' R`` (u, M)."""
        xp = namespace(R)
        return times(self.rows.transposed, R) - self.x_mean * xp.sum(R, axis=0)


def _entries(table, rows, columns):
    """Entries (M,) of a small table on a device."""
    xp = namespace(table)
    return constant(to_host(table)[rows, columns], like=table, xp=xp)


def _solve_columns(columns, max_iter):
    """Coefficients (M, u); iterations and last relative size of the gradient, (M,) on the host."""
    xp = namespace(columns.target)
    n_columns = columns.x_mean.shape[1]
    found = [None] * n_columns
    n_iter, ratio = np.zeros(n_columns, dtype=np.int32), np.ones(n_columns)
    alive = np.arange(n_columns)
    state = _Iteration(columns)
    for _ in range(max_iter):
        going = state.going
        if not going.any():
            break
        if 2 * going.sum() <= len(going):
            _put(found, n_iter, ratio, alive, state, np.flatnonzero(~going))
            kept = np.flatnonzero(going)
            state.select(kept)
            alive = alive[kept]
        state.advance()
    _put(found, n_iter, ratio, alive, state, np.arange(len(alive)))
    return xp.stack(found, axis=0), n_iter, ratio


def _put(found, n_iter, ratio, alive, state, positions):
    for position in positions:
        found[alive[position]] = state.best_x[:, int(position)]
    n_iter[alive[positions]] = state.n_iter[positions]
    ratio[alive[positions]] = state.best[positions]


class _Iteration:
    """Conjugate gradients for least squares, preconditioned by a diagonal.

    Sizes of gradients are looked at on the host once an iteration.
    """

    def __init__(self, columns):
        self.columns = columns
        xp = self.xp = namespace(columns.target)
        self.r = columns.target
        s = columns.backward(columns.weighted(self.r))
        self.x = self.best_x = xp.zeros_like(s)
        z = columns.inverse * s
        self.p = z
        self.gamma = xp.sum(s * z, axis=0)
        self.first = to_host(self.gamma)
        self.best = np.where(self.first > 0, 1.0, 0.0)
        self.waited = np.zeros(len(self.first), dtype=int)
        self.n_iter = np.zeros(len(self.first), dtype=np.int32)

    @property
    def going(self):
        return (self.best > TOL) & (self.waited < PATIENCE)

    def select(self, kept):
        """Go on with some of the columns."""
        xp = self.xp
        index = xp.asarray(kept, device=device_of(self.r))
        self.columns = self.columns.select(index)
        for name in ("r", "x", "p", "best_x"):
            setattr(self, name, xp.take(getattr(self, name), index, axis=1))
        self.gamma = xp.take(self.gamma, index, axis=0)
        for name in ("first", "best", "waited", "n_iter"):
            setattr(self, name, getattr(self, name)[kept])

    def advance(self):
        xp, columns = self.xp, self.columns
        going = self.going
        self.n_iter[going] += 1
        q = columns.forward(self.p)
        curved = xp.sum(columns.weighted(q) * q, axis=0)
        curved = curved + columns.alpha * xp.sum(self.p**2, axis=0)
        moving = xp.asarray(going, device=device_of(q)) & (curved > 0)
        step = xp.where(moving, self.gamma / xp.where(moving, curved, 1.0), 0.0)
        self.x = self.x + step * self.p
        self.r = self.r - step * q
        s = columns.backward(columns.weighted(self.r)) - columns.alpha * self.x
        z = columns.inverse * s
        gamma = xp.sum(s * z, axis=0)
        ahead = self.gamma > 0
        beta = xp.where(ahead, gamma / xp.where(ahead, self.gamma, 1.0), 0.0)
        self.p = z + beta * self.p
        self.gamma = gamma
        self._look(to_host(gamma), going)

    def _look(self, gamma, going):
        """Keep the best solutions so far: beyond what rounding allows, iterations go astray."""
        ratio = np.sqrt(gamma / np.where(self.first > 0, self.first, 1.0))
        better = going & (ratio < 0.99 * self.best)
        self.waited = np.where(better, 0, self.waited + 1)
        self.waited[~(ratio <= ASTRAY * self.best)] = PATIENCE
        self.best = np.where(better, ratio, self.best)
        if better.all():
            self.best_x = self.x
            return
        chosen = self.xp.asarray(better, device=device_of(self.x))
        self.best_x = self.xp.where(chosen, self.x, self.best_x)
