r"""Ridge regression with a penalty for each group of features, which may differ between targets.

For each split s and each candidate, models of targets k minimise

    sum_{i in train(s)} w_i (y_ik - W_k x_i - b_k)^2 + sum_g alpha_kg |W_kg|^2 ,

where W_kg are the coefficients of group g [1]_. Normal equations of a training part serve all
penalties, as in `ridge`: one Cholesky factorisation for each vector of penalties. With more
features than rows, the kernel of a vector is the sum of the kernels of groups, each divided by its
penalty [2]_. An infinite penalty leaves a group out.

References
----------
.. [1] A. O. Nunez-Elizalde, A. G. Huth, J. L. Gallant, "Voxelwise encoding models with
   non-spherical multivariate normal priors", NeuroImage 197 (2019).
.. [2] T. Dupre la Tour, M. Eickenberg, A. O. Nunez-Elizalde, J. L. Gallant, "Feature-space
   selection with banded ridge regression", NeuroImage 264 (2022).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuml._arrays import Array, device_of, namespace, nbytes
from gpuml._arrays.ops import EPS, constant, solve_spd
from gpuml.data import whole
from gpuml.solvers._blocks import quiet
from gpuml.solvers._result import LinearModels, Status, joined, taken
from gpuml.solvers.described import Described, Training, all_rows, describe, training_parts
from gpuml.solvers.factors import LeastSquaresRows, centred_rows
from gpuml.solvers.kernel import Kernel, far_splits, row_kernel
from gpuml.solvers.moments import LEAST_SQUARE, Normal, normal_equations
from gpuml.solvers.ridge import (
    counts_of_rows,
    held_errors,
    largest_number,
    solve_dual,
    solve_held,
    solve_splits,
)

# Matrices up to this many bytes are factored in one call.
SYSTEM_BYTES = 2**28


def solve_bands(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: bool,
    rcond: float | None = None,
    max_iter: int | None = None,
    *,
    group: np.ndarray,
    of_all_rows: bool = False,
) -> LinearModels:
    """Models of every candidate on the training part of every split.

    Parameters
    ----------
    described : Described
        Of dense rows; by moments if some penalty is 0.
    alphas : ndarray (C, t, G) or (C, 1, G), host
        Penalties from 0 to inf.
    fit_intercept : bool
    rcond, max_iter : None
        As `ridge.solve_splits` has them; here without effect.
    group : int ndarray (p,)
        The group of each feature.
    of_all_rows : bool, default=False
        Whether to fit all rows, as one split, instead.

    Returns
    -------
    LinearModels
        With leading axes (C, S).
    """
    jobs = [all_rows(described.folds)] if of_all_rows else training_parts(described.folds)
    kind = _ByMoments if described.kernel is None else _ByKernels
    return joined([_solve(kind(described, each, fit_intercept, group), alphas) for each in jobs], 1)


def _solve(systems, alphas):
    if alphas.shape[1] > 1:
        return joined([_by_target(systems, own) for own in alphas], axis=0)
    distinct, position = np.unique(alphas[:, 0, :], axis=0, return_inverse=True)
    return taken(systems.solve(distinct, None), position.reshape(-1))


def _by_target(systems, alphas):
    """Models (1, S, t, p) of targets, each with penalties (t, G) of its own."""
    distinct, position = np.unique(alphas, axis=0, return_inverse=True)
    places = [np.flatnonzero(position.reshape(-1) == u) for u in range(len(distinct))]
    found = [systems.solve(distinct[u : u + 1], own) for u, own in enumerate(places)]
    xp = namespace(found[0].coef)
    order = np.argsort(np.concatenate(places))
    order = xp.asarray(order, device=device_of(found[0].coef))
    coef, intercept = (
        xp.take(xp.concat([getattr(one, name) for one in found], axis=2), order, axis=2)
        for name in ("coef", "intercept")
    )
    return LinearModels(coef, intercept, np.max([one.status for one in found], axis=0))


def some_targets(values: Array, targets: np.ndarray | None) -> Array:
    """Values (..., t) of some targets; None for all."""
    if targets is None:
        return values
    xp = namespace(values)
    return xp.take(values, xp.asarray(targets, device=device_of(values)), axis=-1)


# ---------------------------------------------------------------- from moments


@dataclass(frozen=True)
class _ByMoments:
    """Normal equations of training parts, for any penalties."""

    described: Described
    parts: Training
    fit_intercept: bool
    group: np.ndarray

    @cached_property
    def normal(self) -> Normal:
        return normal_equations(self.described.combined(self.parts), self.fit_intercept)

    def solve(self, alphas: np.ndarray, targets: np.ndarray | None) -> LinearModels:
        """Models (U, S, t, p) of some targets for penalties (U, G)."""
        penalties = alphas[:, self.group]
        xy = some_targets(self.normal.xy, targets)
        step = max(1, SYSTEM_BYTES // max(1, nbytes(self.normal.xx)))
        runs = [penalties[i : i + step] for i in range(0, len(penalties), step)]
        coef, error = zip(*[self._solved(run, xy) for run in runs], strict=True)
        xp = namespace(xy)
        found, poor = xp.concat(coef), ~(np.concatenate(error) <= self.described.precision)
        status = np.where(poor, Status.ROWS, Status.MOMENTS)
        if poor.any():
            rows = [[found[u, s, ...] for s in range(poor.shape[1])] for u in range(len(poor))]
            for u, s in np.argwhere(poor):
                rows[u][s], unique = self._from_rows(penalties[u], s, targets)
                status[u, s] = Status.ROWS if unique else Status.MINIMUM_NORM
            found = xp.stack([xp.stack(row) for row in rows])
        y_mean = some_targets(self.normal.y_mean, targets)
        intercept = y_mean - xp.sum(found * self.normal.x_mean[:, None, :], axis=-1)
        return LinearModels(found, intercept, status)

    def _solved(self, penalties, xy):
        normal, xp = self.normal, namespace(xy)
        there = constant(np.isfinite(penalties).astype(float), like=xy, xp=xp)[:, None, :]
        finite = np.where(np.isfinite(penalties), penalties, 0.0)
        damping = constant(finite, like=xy, xp=xp)[:, None, :] + (1.0 - there)  # (U, 1, p)
        eye = xp.eye(xy.shape[-2], dtype=xp.float64, device=device_of(xy))
        matrices = normal.xx[None, ...] * there[..., :, None] * there[..., None, :]
        matrices = matrices + damping[..., :, None] * eye
        with quiet():
            coef, condition = solve_spd(matrices, xy[None, ...] * there[..., None], xp)
        coef = xp.matrix_transpose(coef)
        damped = xp.linalg.diagonal(matrices)
        share = xp.max(normal.noise * there / (damped + LEAST_SQUARE), axis=-1)
        error = xp.maximum(EPS * condition, share)
        known = xp.min(damped, axis=-1) > LEAST_SQUARE
        error = xp.where(known, error, xp.full_like(error, float("inf")))
        return coef, held_errors(coef, error, largest_number(self.described))

    def _from_rows(self, penalties, split, targets):
        """Coefficients (t, p) from factors of the rows, and whether they are unique.

        Penalties are rows more, ``sqrt(alpha_j) w_j = 0``.
        """
        stacked = self.described.stacked(self.parts.part(int(split)))
        problem = centred_rows(stacked, self.fit_intercept)
        xp = namespace(problem.A)
        there = np.isfinite(penalties)
        damped = np.flatnonzero(there & (penalties > 0))
        roots = np.zeros((len(damped), len(penalties)))
        roots[np.arange(len(damped)), damped] = np.sqrt(penalties[damped])
        A = problem.A * constant(there.astype(float), like=problem.A, xp=xp)
        b = some_targets(problem.b, targets)
        zeros = xp.zeros((len(damped), b.shape[1]), dtype=b.dtype, device=device_of(b))
        longer = LeastSquaresRows(
            A=xp.concat([A, constant(roots, like=A, xp=xp)]),
            b=xp.concat([b, zeros]),
            x_mean=problem.x_mean,
            y_mean=problem.y_mean,
        )
        coef, unique = solve_held(longer, np.zeros(1), None, largest_number(self.described))
        return coef[0, ...], bool(unique[0]) and bool(there.all())


# ---------------------------------------------------------------- from kernels


@dataclass(frozen=True)
class GroupKernels:
    """Inner products of rows X (n, p), group by group or for weighted sums of groups.

    The former where they take no more memory than X.
    """

    X: Array
    group: np.ndarray

    @cached_property
    def _each(self) -> Array | None:
        n, p = self.X.shape
        n_groups = int(self.group.max()) + 1
        if n_groups * n > p:
            return None
        xp = namespace(self.X)
        runs = [some_targets(self.X, np.flatnonzero(self.group == g)) for g in range(n_groups)]
        return xp.stack([xp.reshape(run @ run.T, (-1,)) for run in runs])

    def sum(self, weights: np.ndarray) -> Array:
        """The sum (n, n) of the kernels of groups, each times its weight (G,)."""
        xp, n = namespace(self.X), self.X.shape[0]
        if self._each is None:
            return (self.X * constant(weights[self.group], like=self.X, xp=xp)) @ self.X.T
        return xp.reshape(constant(weights, like=self.X, xp=xp) @ self._each, (n, n))


@dataclass(frozen=True)
class _ByKernels:
    """Inner products of the rows of training parts, for any positive penalties."""

    described: Described
    parts: Training
    fit_intercept: bool
    group: np.ndarray

    @cached_property
    def _counts(self):
        folds = self.described.folds
        partition = folds.partitions[self.parts.index]
        return counts_of_rows(partition, self.parts.counts, folds.batch.n_rows)

    @cached_property
    def _kernel(self) -> Kernel:
        """That of the rows less their mean; less nothing, where no intercept is fitted."""
        if not self.fit_intercept:
            return row_kernel(self.described.folds.batch, at_mean=False)
        assert self.described.kernel is not None
        return self.described.kernel

    @cached_property
    def _groups(self):
        return GroupKernels(self._kernel.X, self.group)

    @cached_property
    def _far(self):
        own = self.fit_intercept and far_splits(self._kernel, self._counts, True)
        return bool(np.any(own))

    def solve(self, alphas: np.ndarray, targets: np.ndarray | None) -> LinearModels:
        """Models (U, S, t, p) of some targets for penalties (U, G)."""
        return joined([self._solved(own, targets) for own in 1.0 / alphas], axis=0)

    def _solved(self, weights, targets):
        """Models (1, S, t, p), from kernels if these leave enough digits."""
        if self._far:
            return self._of_scaled_rows(np.sqrt(weights)[self.group], targets)
        xp, precision = self.described.place.xp, self.described.precision
        kernel = replace(
            self._kernel,
            K=self._groups.sum(weights),
            y=some_targets(self._kernel.y, targets),
            shift=self._shift_of(targets),
        )
        coef, x_mean, y_mean, error = solve_dual(
            kernel,
            self._counts,
            np.ones(1),
            self.fit_intercept,
            largest_number(self.described),
            precision / EPS,
        )
        if not (error <= precision).all():
            return self._of_scaled_rows(np.sqrt(weights)[self.group], targets)
        coef = coef * constant(weights[self.group], like=coef, xp=xp)
        intercept = y_mean - xp.sum(coef * x_mean[:, None, :], axis=-1)
        return LinearModels(coef, intercept, np.full(error.shape, int(Status.MOMENTS)))

    def _shift_of(self, targets):
        p = self._kernel.X.shape[1]
        shift, xp = self._kernel.shift, self.described.place.xp
        return xp.concat([shift[:p], some_targets(shift[p:], targets)])

    def _of_scaled_rows(self, scale, targets):
        """From the rows, each feature times a number, as a ridge regression with the penalty 1."""
        folds = self.described.folds
        xp = namespace(folds.batch.X)
        X = xp.astype(folds.batch.X, xp.float64)
        X = X * constant(scale, like=X, xp=xp)
        batch = replace(folds.batch, X=X, y=some_targets(folds.batch.y, targets))
        all_of_them = self.parts.splits is None
        scaled = whole(batch) if all_of_them else replace(folds, batch=batch, known={})
        models = solve_splits(
            describe(scaled), np.ones((1, 1)), self.fit_intercept, of_all_rows=all_of_them
        )
        own = slice(None) if all_of_them else self.parts.splits
        scale = constant(scale, like=models.coef, xp=namespace(models.coef))
        return LinearModels(
            models.coef[:, own, ...] * scale, models.intercept[:, own, :], models.status[:, own]
        )
