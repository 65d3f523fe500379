"""Ridge models of sparse rows: all candidates on all splits, from moments or by iterations."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import device_of, free_bytes, itemsize, namespace
from gpuml._arrays.ops import all_finite
from gpuml._settings.config import current_settings
from gpuml.data import Folds, whole
from gpuml.linear_model._least_squares import by_intercept, taken
from gpuml.linear_model._models import RegressionModels
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.described import ASKED_PRECISION, Described, all_rows, training_parts
from gpuml.solvers.sparse_moments import solve_moments, sparse_moments
from gpuml.solvers.sparse_ridge import centred_rows, solve_sparse_ridge
from gpuml.solvers.sparse_rows import sparse_batch_of

# Features up to which models are solved from second moments.
MOST_MOMENT_FEATURES = 1024

Advance = Callable[[int], None]


def solve_sparse_candidates(
    folds: Folds,
    alphas: np.ndarray,
    fit_intercept: Sequence[bool],
    attributes: Callable[..., dict[str, Any]],
    max_iter: int | None,
    advance: Advance | None = None,
) -> RegressionModels:
    """Solve all candidates on all splits.

    Parameters
    ----------
    folds : Folds
        Of a `SparseBatch`.
    alphas : ndarray (C, t) or (C, 1)
    fit_intercept : sequence of C bools
    attributes : callable
        As of `Models`. Status is MOMENTS, or ROWS for conjugate gradients.
    max_iter : int or None
        Bound on the iterations of conjugate gradients.
    advance : callable, optional
        Called with the number of rows read since the last call.
    """

    def refit(models, candidate):
        some, flag = slice(candidate, candidate + 1), bool(fit_intercept[candidate])
        one = _solve(folds, described, alphas[some], flag, max_iter, of_all=True)
        return replace(models, **vars(one), fit_intercept=[flag], of_all_rows=True)

    described = _described(folds, advance) if solved_from_moments(folds.batch) else None
    flags = np.asarray(fit_intercept, dtype=bool)
    solved = by_intercept(
        flags,
        lambda some: _solve(folds, described, alphas[some], bool(flags[some][0]), max_iter),
    )
    iterations = solved.n_iter if solved.n_iter is not None else 0
    # An iteration multiplies by the rows and by their transpose.
    of_moments = 0 if described is None else len(folds.partitions)
    return RegressionModels(
        folds=folds,
        **vars(solved),
        fit_intercept=flags.tolist(),
        n_passes=of_moments + 2 * int(np.max(iterations, initial=0)),
        refit=refit,
        attributes=attributes,
        flat_coef=folds.batch.y.shape[1] == 1,
        described=described,
    )


def solved_from_moments(batch: Any) -> bool:
    """Whether second moments of so many features take less than the rows are worth."""
    return batch.n_features <= min(MOST_MOMENT_FEATURES, batch.n_rows)


def _described(folds, advance):
    moments = sparse_moments(folds, advance)
    xp = folds.batch.work.xp
    if not all(all_finite(each.gram, xp) for each in moments):
        return None
    return Described(folds, moments, None, None, False, len(moments))


def _solve(folds, described, alphas, fit_intercept, max_iter, *, of_all=False):
    """Models (C, S, ...) of candidates that agree on the intercept."""
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
    models = LinearModels(coef, intercept, status, n_iter)
    asked = ASKED_PRECISION[itemsize(sparse_batch_of(folds).matrix.data.dtype)]
    hard = np.flatnonzero(~(error <= asked).all(axis=1))
    if len(hard) == 0:
        return models
    rest = whole(folds.batch) if of_all else folds
    better = _by_iterations(rest, alphas[hard], fit_intercept, max_iter)
    easy = np.setdiff1d(np.arange(len(alphas)), hard)
    order = np.argsort(np.concatenate([easy, hard]))
    return taken([taken([models], easy), better], order)


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
    return LinearModels(found.coef, found.intercept, status, found.n_iter)
