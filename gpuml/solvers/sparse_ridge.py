"""Ridge regression of sparse rows by conjugate gradients: every alpha on every split together.

The objective is that of `solvers.ridge`. All models are rows of one matrix, so that an iteration
[1]_ is one product of the sparse rows with a dense matrix and one of their transpose. Rows are
centred implicitly, ``(X - 1 m') v = X v - 1 (m' v)``: they stay sparse.

Without a preconditioner the alphas of a split share their Krylov space, and their gradients are
multiples of each other [2]_: iterations of the smallest alpha give the models of all. So features
of about the same spread take no preconditioner where there are several alphas.

References
----------
.. [1] A. Bjorck, "Numerical Methods for Least Squares Problems" (1996), section 7.4.
.. [2] A. Frommer, P. Maass, "Fast CG-based methods for Tikhonov-Phillips regularization", SIAM
   Journal on Scientific Computing 20 (1999).
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from gpuml._arrays import Array, device_of, free_bytes, is_numpy, namespace, to_host
from gpuml._arrays.ops import all_finite, all_true, constant
from gpuml._settings.config import current_settings
from gpuml.data import Folds, split_weights
from gpuml.designs._sparse_ops import times, transposed
from gpuml.designs.sparse import column_sums, float64_matrix, squared
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.sparse_rows import SparseBatch

# Gradients are to become smaller by this factor: it leaves coefficients about eight digits.
TOL = 1e-9
# The same of models of several splits, which are to be scored: it leaves scores ten digits. Where
# rounding stops gradients earlier, this is what counts as a solution.
GOOD_ENOUGH = 1e-8
# Iterations without any progress after which it was rounding.
PATIENCE = 200
# Gradients that are so much larger than the smallest so far will not come back.
ASTRAY = 1e6
LEAST_MAX_ITER = 1000
# If the mean of curvatures is at most so many times their harmonic mean, no preconditioner is used:
# it would save less than sharing iterations between alphas does.
ALIKE = 2.0
# Vectors of the length of a model, and of the rows, that a model takes.
MODEL_VECTORS = 9
ROW_VECTORS = 5


@dataclass(frozen=True)
class CentredRows:
    """Rows and targets less their means over the training part of each split.

    Attributes
    ----------
    X : CSR matrix (n, u), float64
    transposed : CSR matrix (u, n)
    y : array (n, t)
    weights : array (S, n) or None
        How much each row counts in each split; None for 1 everywhere.
    x_mean : array (S, u)
        Zero where no intercept is fitted.
    y_mean : array (S, t)
    spread : array (S, u)
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
        w = xp.ones((1, batch.n_rows), dtype=xp.float64, device=device_of(y))
    total = xp.sum(w, axis=1)
    spread = column_sums(squared(X), w.T).T
    if fit_intercept:
        x_mean, y_mean = column_sums(X, w.T).T / total[:, None], w @ y / total[:, None]
        spread = spread - total[:, None] * x_mean**2
        spread = xp.where(spread > 0, spread, xp.zeros_like(spread))
    else:
        x_mean, y_mean = xp.zeros_like(spread), xp.zeros_like(w @ y)
    if not all_finite(spread, xp):
        raise ValueError(
            "Squares of the values of X overflow float64. Scale the features (MaxAbsScaler, or "
            "divide by a power of ten)."
        )
    # By rows: SciPy takes twice as long for products by columns.
    return CentredRows(
        X, transposed(X).tocsr(), y, weights, x_mean, y_mean, spread, total, fit_intercept
    )


def _weights(folds):
    """Weights (S, n) of the rows in the training part of each split, float64; None for all 1."""
    batch, xp = folds.batch, folds.batch.work.xp
    times_used = split_weights(folds)
    if batch.weight is None and times_used is None:
        return None
    own = None if batch.weight is None else xp.astype(batch.weight, xp.float64)[None, :]
    if times_used is None:
        return own
    counts = xp.astype(times_used, xp.float64)
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
    n_candidates, n_splits, t = len(alphas), rows.x_mean.shape[0], rows.y.shape[1]
    shape = (n_candidates, n_splits, t)
    # The alphas of a split and target are neighbours.
    alpha = np.broadcast_to(alphas.T, (n_splits, t, n_candidates)).ravel()
    split, target = (
        np.broadcast_to(a, (n_splits, t, n_candidates)).ravel()
        for a in (np.arange(n_splits)[:, None, None], np.arange(t)[:, None])
    )
    limit = max_iter or max(LEAST_MAX_ITER, 10 * min(n, u))
    tol = TOL if n_splits == 1 else GOOD_ENOUGH
    per_model = 8 * (MODEL_VECTORS * u + ROW_VECTORS * n)
    size = max(1, memory // per_model)
    size = max(1, size // n_candidates) * n_candidates if size >= n_candidates else size
    parts = []
    for first in range(0, len(alpha), size):
        some = slice(first, first + size)
        models = _Models.of(rows, alpha[some], split[some], target[some])
        n_alphas = n_candidates if len(alpha[some]) % n_candidates == 0 else 1
        start, left = None, limit
        if n_alphas > 1 and models.alike:
            start = _share(models, n_alphas, limit, tol)
            left -= int(start[1].max())
            models = replace(models, inverse=xp.ones_like(models.inverse))
        parts.append(_solve_models(models, left, tol, start))
    coef = xp.concat([part[0] for part in parts], axis=0)
    n_iter, ratio = (
        np.concatenate([part[i] for part in parts]).reshape(shape[1:] + shape[:1]) for i in (1, 2)
    )
    n_iter, ratio = (np.moveaxis(a, -1, 0) for a in (n_iter, ratio))
    coef = xp.permute_dims(xp.reshape(coef, (n_splits, t, n_candidates, u)), (2, 0, 1, 3))
    intercept = rows.y_mean - xp.sum(coef * rows.x_mean[:, None, :], axis=-1)
    converged = (ratio <= GOOD_ENOUGH).all(axis=-1)
    status = np.where(converged, int(Status.ROWS), int(Status.STOPPED))
    return LinearModels(coef, intercept, status, n_iter)


@dataclass(frozen=True)
class _Models:
    """Problems that are solved together, M of them.

    `inverse` is the inverse diagonal of the normal equations, a preconditioner: features of very
    different scales do no harm. There is none where features outnumber rows, or without a penalty:
    plain iterations from zero never leave the row space, where the smallest eigenvalues are not,
    and lead to the solution of minimum norm.
    """

    rows: CentredRows
    weights: Array | None  # (M, n) or (1, n)
    x_mean: Array  # (M, u)
    total: Array  # (M, 1)
    alpha: Array  # (M, 1)
    inverse: Array  # (M, u)
    target: Array  # (M, n)

    @classmethod
    def of(cls, rows, alpha, split, target):
        xp = namespace(rows.y)

        def pick(a, index):
            return xp.take(a, xp.asarray(index, device=device_of(a)), axis=0)

        w = rows.weights
        alpha = constant(alpha, like=rows.y, xp=xp)[:, None]
        spread = pick(rows.spread, split)
        inverse = xp.ones_like(spread)
        if rows.X.shape[0] >= rows.X.shape[1]:
            inverse = xp.where(alpha > 0, spread + alpha, inverse)
        centred = pick(rows.y.T, target) - _entries(rows.y_mean, split, target)[:, None]
        weights = w if w is None or w.shape[0] == 1 else pick(w, split)
        total = pick(rows.total[:, None], split)
        return cls(rows, weights, pick(rows.x_mean, split), total, alpha, 1.0 / inverse, centred)

    @property
    def alike(self) -> bool:
        """Whether the curvatures along all features are about the same."""
        xp = namespace(self.inverse)
        means = xp.mean(self.inverse, axis=1) * xp.mean(1.0 / self.inverse, axis=1)
        return all_true(means <= ALIKE, xp)

    def select(self, index: Array) -> "_Models":
        """Some of the models."""
        xp = namespace(index)
        names = ["x_mean", "inverse", "target", "total", "alpha"]
        if self.weights is not None and self.weights.shape[0] > 1:
            names.append("weights")
        return replace(self, **{n: xp.take(getattr(self, n), index, axis=0) for n in names})

    def forward(self, V: Array) -> Array:
        """``V (X - 1 m')'`` (M, n).

        What is taken off is the mean of the product itself: ``m' V`` is the same number with
        another rounding, which all rows would be off by together.
        """
        product = _rows_of(times(self.rows.X, V.T))
        if not self.rows.centred:
            return product
        mean = namespace(V).sum(self.weighted(product), axis=1, keepdims=True) / self.total
        return product - mean

    def weighted(self, R: Array) -> Array:
        """Rows times their weights."""
        return R if self.weights is None else R * self.weights

    def backward(self, R: Array) -> Array:
        """``R (X - 1 m')`` (M, u)."""
        product = _rows_of(times(self.rows.transposed, R.T))
        if not self.rows.centred:
            return product
        return product - self.x_mean * namespace(R).sum(R, axis=1, keepdims=True)


def _rows_of(product):
    """A product (n, M) stored so that each vector is contiguous."""
    return np.ascontiguousarray(product.T) if is_numpy(product) else product.T


def _squares(V, W):
    """Inner products (M,) of the rows of two matrices."""
    return namespace(V).sum(V * W, axis=1)


def _entries(table, rows, columns):
    """Entries (M,) of a small table on a device."""
    xp = namespace(table)
    return constant(to_host(table)[rows, columns], like=table, xp=xp)


def _share(models, n_alphas, max_iter, tol):
    """Coefficients (M, u) of models; consecutive models differ in alpha alone.

    And the iterations (M,) they took. The gradient at a model of ``alpha = least + shift`` is that
    at the model of the least alpha, times a factor.
    """
    xp = namespace(models.target)
    alpha = np.reshape(to_host(models.alpha), (-1, n_alphas))  # (G, A)
    least = np.argmin(alpha, axis=1)
    numbers = np.arange(len(alpha))
    picked = xp.asarray(numbers * n_alphas + least, device=device_of(models.target))
    seeds = models.select(picked)
    shift = (alpha - alpha[numbers, least][:, None]).T  # (A, G)

    def scaled(values, vectors):
        return constant(values, like=models.target, xp=xp)[:, None] * vectors

    r = seeds.target
    s = p = seeds.backward(seeds.weighted(r))
    x = xp.zeros_like(s)
    found, directions = [x] * n_alphas, [p] * n_alphas
    gamma = first = to_host(_squares(s, s))
    factor = before = np.ones_like(shift)
    old_step, old_turn = np.ones_like(gamma), np.zeros_like(gamma)
    n_iter = np.zeros(shift.shape, dtype=np.int32)
    live = np.broadcast_to(first > 0, shift.shape)
    # Models without a shift are the seeds.
    shifted = shift.any(axis=1)
    for _ in range(max_iter):
        if not live.any():
            break
        q = seeds.forward(p)
        curved = to_host(_squares(seeds.weighted(q), q) + seeds.alpha[:, 0] * _squares(p, p))
        moving = live.any(axis=0) & (curved > 0)
        step = np.where(moving, gamma / np.where(moving, curved, 1.0), 0.0)
        with np.errstate(all="ignore"):
            after = factor * before * old_step
            after = after / (
                step * old_turn * (before - factor) + before * old_step * (1 + shift * step)
            )
            steps = np.where(live, step * after / factor, 0.0)
        live = live & moving & np.isfinite(after) & (after > 0) & np.isfinite(steps)
        x = x + scaled(step, p)
        r = r - scaled(step, q)
        s = seeds.backward(seeds.weighted(r)) - seeds.alpha * x
        squares = to_host(_squares(s, s))
        turn = np.where(gamma > 0, squares / np.where(gamma > 0, gamma, 1.0), 0.0)
        for a in np.flatnonzero(shifted & live.any(axis=1)):
            taken, weight = np.where(live[a], steps[a], 0.0), np.where(live[a], after[a], 0.0)
            found[a] = found[a] + scaled(taken, directions[a])
            back = np.where(live[a], turn * (after[a] / factor[a]) ** 2, 0.0)
            directions[a] = scaled(weight, s) + scaled(back, directions[a])
        n_iter[live] += 1
        p = s + scaled(turn, p)
        before, factor = factor, np.where(live, after, factor)
        old_step, old_turn, gamma = step, turn, squares
        live = live & (np.abs(factor) * np.sqrt(gamma / np.where(first > 0, first, 1.0)) > tol)
    found = [own if moved else x for own, moved in zip(found, shifted, strict=True)]
    models_of_group = xp.stack(found, axis=1)  # (G, A, u)
    return xp.reshape(models_of_group, models.x_mean.shape), n_iter.T.ravel()


def _solve_models(models, max_iter, tol, start=None):
    """Coefficients (M, u); iterations and last relative size of the gradient, (M,) on the host.

    They begin at `start`, coefficients (M, u) and the iterations (M,) before, or at 0.
    """
    xp = namespace(models.target)
    n_models = models.x_mean.shape[0]
    found = [None] * n_models
    n_iter, ratio = np.zeros(n_models, dtype=np.int32), np.ones(n_models)
    alive = np.arange(n_models)
    state = _Iteration(models, tol, start)
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
        found[alive[position]] = state.best_x[int(position), :]
    n_iter[alive[positions]] = state.n_iter[positions]
    ratio[alive[positions]] = state.best[positions]


class _Iteration:
    """Conjugate gradients for least squares, preconditioned by a diagonal.

    Sizes of gradients are looked at on the host once an iteration.
    """

    def __init__(self, models, tol, start):
        self.models, self.tol = models, tol
        xp = self.xp = namespace(models.target)
        self.r = models.target
        s = models.backward(models.weighted(self.r))
        self.x = self.best_x = xp.zeros_like(s)
        z = models.inverse * s
        self.first = to_host(_squares(s, z))
        self.best = np.where(self.first > 0, 1.0, 0.0)
        self.n_iter = np.zeros(len(self.first), dtype=np.int32)
        if start is not None:
            self.x, self.n_iter = start
            self.best_x = self.x
            self.r = self.r - models.forward(self.x)
            s = models.backward(models.weighted(self.r)) - models.alpha * self.x
            z = models.inverse * s
            size = to_host(_squares(s, z))
            self.best = np.sqrt(size / np.where(self.first > 0, self.first, 1.0))
        self.p = z
        self.gamma = _squares(s, z)
        self.waited = np.zeros(len(self.first), dtype=int)

    @property
    def going(self):
        return (self.best > self.tol) & (self.waited < PATIENCE)

    def select(self, kept):
        """Continue with some of the models."""
        xp = self.xp
        index = xp.asarray(kept, device=device_of(self.r))
        self.models = self.models.select(index)
        for name in ("r", "x", "p", "best_x", "gamma"):
            setattr(self, name, xp.take(getattr(self, name), index, axis=0))
        for name in ("first", "best", "waited", "n_iter"):
            setattr(self, name, getattr(self, name)[kept])

    def advance(self):
        xp, models = self.xp, self.models
        going = self.going
        self.n_iter[going] += 1
        q = models.forward(self.p)
        curved = _squares(models.weighted(q), q) + models.alpha[:, 0] * _squares(self.p, self.p)
        moving = xp.asarray(going, device=device_of(q)) & (curved > 0)
        step = xp.where(moving, self.gamma / xp.where(moving, curved, 1.0), 0.0)[:, None]
        self.x = self.x + step * self.p
        self.r = self.r - step * q
        s = models.backward(models.weighted(self.r)) - models.alpha * self.x
        z = models.inverse * s
        gamma = _squares(s, z)
        ahead = self.gamma > 0
        beta = xp.where(ahead, gamma / xp.where(ahead, self.gamma, 1.0), 0.0)
        self.p = z + beta[:, None] * self.p
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
        chosen = self.xp.asarray(better, device=device_of(self.x))[:, None]
        self.best_x = self.xp.where(chosen, self.x, self.best_x)
