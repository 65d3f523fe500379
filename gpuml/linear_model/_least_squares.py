"""Least-squares models of all candidates on all splits, from sufficient statistics."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml.linear_model._models import Models, RegressionModels
from gpuml.solvers._result import LinearModels, Status, in_order
from gpuml.solvers.described import Described
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.ridge import solve_splits


def solve_candidates(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: Sequence[bool],
    attributes: Callable[..., dict[str, Any]],
    rcond: float | None = None,
    max_iter: int | None = None,
    *,
    flat_coef: bool = False,
    kind: type[Models] = RegressionModels,
    solve: Callable[..., LinearModels] = solve_splits,
) -> Models:
    """Solve all candidates, those with and those without an intercept in one call each.

    Parameters
    ----------
    described : Described
    alphas : ndarray (C, t) or (C, 1)
        Penalties of the candidates.
    fit_intercept : sequence of C bools
    attributes : callable
        As of `Models`.
    rcond, max_iter : float and int, optional
        As for `solvers.ridge.solve_splits`.
    flat_coef : bool, default=False
        Whether `coef_` has one axis for y of shape (n, 1) too, as scikit-learn's Ridge has it.
    kind : type, default=RegressionModels
    solve : callable, default=solve_splits
        What solves, where `alphas` (C, ...) mean something else.
    """

    def refit(models, candidate):
        flag = bool(fit_intercept[candidate])
        some = alphas[candidate : candidate + 1]
        one = solve(described, some, flag, rcond, max_iter, of_all_rows=True)
        _warn_if_stopped(one)
        return replace(models, **vars(one), fit_intercept=[flag], of_all_rows=True)

    flags = [bool(flag) for flag in fit_intercept]
    if all(flags) or not any(flags):
        solved = solve(described, alphas, all(flags), rcond, max_iter)
    else:
        groups = [np.flatnonzero(np.asarray(flags) == flag) for flag in (True, False)]
        solved = in_order(
            [
                solve(described, alphas[some], flag, rcond, max_iter)
                for flag, some in zip((True, False), groups, strict=True)
            ],
            groups,
        )
    _warn_if_stopped(solved)
    # An iteration multiplies by the rows and by their transpose.
    iterations = 0 if solved.n_iter is None else 2 * int(solved.n_iter.max(initial=0))
    batch = described.folds.batch
    # Sums by level take one more pass.
    by_level = int(isinstance(batch, NumberedBatch) and batch.apart is not None)
    return kind(
        folds=described.folds,
        **vars(solved),
        fit_intercept=flags,
        n_passes=described.n_passes + iterations + by_level,
        refit=refit,
        attributes=attributes,
        flat_coef=batch.y_is_flat or (flat_coef and batch.y.shape[1] == 1),
        described=described,
    )


def _warn_if_stopped(models: LinearModels) -> LinearModels:
    """The models; warns about those for which conjugate gradients did not converge."""
    late = models.status == Status.STOPPED
    if late.any():
        warnings.warn(
            f"Conjugate gradients did not converge for {late.sum()} of {late.size} models. "
            "Increase max_iter or alpha, or scale the features (MaxAbsScaler).",
            ConvergenceWarning,
            stacklevel=2,
        )
    return models
