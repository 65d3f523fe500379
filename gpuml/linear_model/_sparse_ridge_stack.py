"""Ridge models of sparse rows, all candidates on all splits, as a search sees them."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import Array, device_of, free_bytes, itemsize, namespace
from gpuml._arrays.ops import all_finite
from gpuml._settings.config import current_settings
from gpuml.data import Folds, whole
from gpuml.designs._sparse_ops import spread_columns
from gpuml.linear_model._responses import Predicting, Predictions
from gpuml.linear_model._stack import at_home, residual_moments
from gpuml.metrics.residuals import ResidualMoments
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.described import ASKED_PRECISION, Described, all_rows, training_parts
from gpuml.solvers.sparse_moments import solve_moments, sparse_moments
from gpuml.solvers.sparse_ridge import centred_rows, solve_sparse_ridge
from gpuml.solvers.sparse_rows import sparse_batch_of

# Features up to which models are solved from second moments.
MOST_MOMENT_FEATURES = 1024

Advance = Callable[[int], None]


@dataclass(frozen=True)
class SparseRidgeStack(Predicting):
    """What `multifit` of Ridge returns for sparse rows.

    Attributes
    ----------
    folds : Folds
        Of a `SparseBatch`.
    described : Described or None
        Moments of the rows, where models were solved from these.
    models : LinearModels
        Coefficients (C, S, t, u) of the columns in use. Status is MOMENTS, or ROWS for conjugate
        gradients.
    n_iter : int ndarray (C, S, t)
        Iterations of conjugate gradients.
    alphas : ndarray (C, t) or (C, 1)
    fit_intercept : sequence of C bools
    max_iter : int or None
    """

    folds: Folds
    described: Described | None
    models: LinearModels
    n_iter: np.ndarray
    alphas: np.ndarray
    fit_intercept: Sequence[bool]
    max_iter: int | None

    @property
    def n_candidates(self) -> int:
        return len(self.alphas)

    @property
    def n_passes(self) -> int:
        """How often the rows were read: an iteration multiplies by them and by their transpose."""
        moments = 0 if self.described is None else len(self.folds.partitions)
        return moments + 2 * int(self.n_iter.max(initial=0))

    @property
    def responses(self) -> Predictions:
        """What the models say of rows."""
        models = self.models
        return Predictions(models.coef, models.intercept, self.folds.batch.y_is_flat)

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array] | None:
        """Sums of the residuals of every model over its "train" or "test" rows, from moments."""
        if self.described is None:
            return None
        return residual_moments(self.described, self.models, part)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        if split is not None:
            return self._attributes(candidate, split)
        some = slice(candidate, candidate + 1)
        alphas, flag = self.alphas[some], bool(self.fit_intercept[candidate])
        models, n_iter = _solve(
            self.folds, self.described, alphas, flag, self.max_iter, of_all=True
        )
        one = replace(self, models=models, n_iter=n_iter, alphas=alphas, fit_intercept=[flag])
        return one._attributes(0, 0)

    def _attributes(self, candidate, split):
        batch = sparse_batch_of(self.folds)
        bare = batch.without_rows()
        coef = spread_columns(
            self.models.coef[candidate, split, ...], batch.columns, batch.n_columns
        )
        coef, intercept = (
            at_home(a, bare) for a in (coef, self.models.intercept[candidate, split, ...])
        )
        status = Status(int(self.models.status[candidate, split]))
        from_moments = status is Status.MOMENTS
        if batch.y.shape[1] == 1:
            coef = coef[0, ...]
        if batch.y_is_flat:
            intercept = intercept[0, ...]
            intercept = intercept[()] if batch.home.kind == "numpy" else intercept
        return {
            "coef_": coef,
            "intercept_": intercept if self.fit_intercept[candidate] else 0.0,
            "n_iter_": 1 if from_moments else self._iterations(candidate, split),
            "solver_": "cholesky" if from_moments else "sparse_cg",
            "status_": status,
        }

    def _iterations(self, candidate, split):
        n_iter = self.n_iter[candidate, split]
        return int(n_iter[0]) if self.folds.batch.y_is_flat else n_iter.astype(np.int32)


def stack_sparse_ridge(
    folds: Folds,
    alphas: np.ndarray,
    fit_intercept: Sequence[bool],
    max_iter: int | None,
    advance: Advance | None = None,
) -> SparseRidgeStack:
    """Solve all candidates on all splits.

    Parameters
    ----------
    folds : Folds
        Of a `SparseBatch`.
    alphas : ndarray (C, t) or (C, 1)
    fit_intercept : sequence of C bools
    max_iter : int or None
        Bound on the iterations of conjugate gradients.
    advance : callable, optional
        Called with the number of rows read since the last call.
    """
    described = _described(folds, advance) if solved_from_moments(folds.batch) else None
    flags = np.asarray(fit_intercept, dtype=bool)
    kinds = [flag for flag in (True, False) if (flags == flag).any()]
    solved = [_solve(folds, described, alphas[flags == flag], flag, max_iter) for flag in kinds]
    order = np.argsort(np.concatenate([np.flatnonzero(flags == flag) for flag in kinds]))
    models = _joined([each[0] for each in solved], order)
    n_iter = np.concatenate([each[1] for each in solved])[order]
    return SparseRidgeStack(folds, described, models, n_iter, alphas, list(fit_intercept), max_iter)


def solved_from_moments(batch: Any) -> bool:
    """Whether second moments of so many features take less than the rows are worth."""
    return batch.n_features <= min(MOST_MOMENT_FEATURES, batch.n_rows)


def _described(folds, advance):
    moments = sparse_moments(folds, advance)
    xp = folds.batch.work.xp
    if not all(all_finite(each.gram, xp) for each in moments):
        return None
    return Described(folds, moments, None, None, False, len(moments))


def _joined(models, order):
    if len(models) == 1:
        return models[0]
    xp = namespace(models[0].coef)
    index = xp.asarray(order, device=device_of(models[0].coef))
    coef, intercept = (
        xp.take(xp.concat([getattr(each, name) for each in models]), index, axis=0)
        for name in ("coef", "intercept")
    )
    return LinearModels(coef, intercept, np.concatenate([each.status for each in models])[order])


def _solve(folds, described, alphas, fit_intercept, max_iter, *, of_all=False):
    """Models (C, S, ...) of candidates that agree on the intercept, and iterations (C, S, t)."""
    if described is None or alphas.shape[1] > 1:
        rest = whole(folds.batch) if of_all else folds
        return _by_iterations(rest, alphas, fit_intercept, max_iter)
    distinct, position = np.unique(alphas[:, 0], return_inverse=True)
    parts = [all_rows(folds)] if of_all else training_parts(folds)
    solved = [solve_moments(described.combined(p), distinct, fit_intercept) for p in parts]
    xp = namespace(solved[0][0])
    index = xp.asarray(position, device=device_of(solved[0][0]))
    coef, intercept = (
        xp.take(xp.concat([each[i] for each in solved], axis=1), index, axis=0) for i in (0, 1)
    )
    error = np.concatenate([each[2] for each in solved], axis=1)[position]
    status = np.full(error.shape, int(Status.MOMENTS))
    n_iter = np.zeros((*error.shape, coef.shape[2]), dtype=np.int32)
    models = LinearModels(coef, intercept, status)
    asked = ASKED_PRECISION[itemsize(sparse_batch_of(folds).matrix.data.dtype)]
    hard = np.flatnonzero(~(error <= asked).all(axis=1))
    if len(hard) == 0:
        return models, n_iter
    rest = whole(folds.batch) if of_all else folds
    better = _by_iterations(rest, alphas[hard], fit_intercept, max_iter)
    return _replaced(models, n_iter, hard, *better)


def _replaced(models, n_iter, hard, better, iterations):
    """Models in which some candidates are others."""
    xp = namespace(models.coef)
    easy = np.setdiff1d(np.arange(len(models.status)), hard)
    order = xp.asarray(np.argsort(np.concatenate([easy, hard])), device=device_of(models.coef))
    kept = xp.asarray(easy, device=device_of(models.coef))
    coef, intercept = (
        xp.take(
            xp.concat([xp.take(getattr(models, name), kept, axis=0), getattr(better, name)]),
            order,
            axis=0,
        )
        for name in ("coef", "intercept")
    )
    status, n_iter = models.status.copy(), n_iter.copy()
    status[hard], n_iter[hard] = better.status, iterations
    return LinearModels(coef, intercept, status), n_iter


def _by_iterations(folds, alphas, fit_intercept, max_iter):
    memory = current_settings().solver_bytes or free_bytes(folds.batch.work) // 4
    rows = centred_rows(folds, fit_intercept)
    xp = namespace(rows.y)
    if not all_finite(rows.spread, xp):
        raise ValueError(
            "Squares of the values of X overflow float64. Scale the features (MaxAbsScaler, or "
            "divide by a power of ten)."
        )
    found = solve_sparse_ridge(rows, alphas, max_iter, memory)
    late = ~found.converged
    if late.any():
        warnings.warn(
            f"Conjugate gradients did not converge for {late.sum()} of {late.size} models. "
            "Increase max_iter or alpha, or scale the features (MaxAbsScaler).",
            ConvergenceWarning,
            stacklevel=2,
        )
    status = np.full(late.shape[:2], int(Status.ROWS))
    return LinearModels(found.coef, found.intercept, status), found.n_iter
