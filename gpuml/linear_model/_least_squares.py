"""Least-squares models of dense rows: all candidates on all splits, from what is known of them."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from gpuml._arrays import device_of, namespace
from gpuml.linear_model._models import RegressionModels
from gpuml.solvers._result import LinearModels
from gpuml.solvers.described import Described
from gpuml.solvers.ridge import solve_all_rows, solve_splits


def solve_candidates(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: Sequence[bool],
    attributes: Callable[..., dict[str, Any]],
    rcond: float | None = None,
    *,
    flat_coef: bool = False,
) -> RegressionModels:
    """Solve all candidates, those with and those without an intercept in one call each.

    Parameters
    ----------
    described : Described
    alphas : ndarray (C, t) or (C, 1)
        Penalties of the candidates.
    fit_intercept : sequence of C bools
    attributes : callable
        As of `Models`.
    rcond : float, optional
        As for `solvers.ridge.solve_splits`.
    flat_coef : bool, default=False
        Whether `coef_` has one axis for y of shape (n, 1) too, as scikit-learn's Ridge has it.
    """

    def refit(models, candidate):
        flag = bool(fit_intercept[candidate])
        one = solve_all_rows(described, alphas[candidate : candidate + 1], flag, rcond)
        return replace(models, **vars(one), fit_intercept=[flag], of_all_rows=True)

    flags = np.asarray(fit_intercept, dtype=bool)
    solved = by_intercept(
        flags, lambda some: solve_splits(described, alphas[some], bool(flags[some][0]), rcond)
    )
    batch = described.folds.batch
    return RegressionModels(
        folds=described.folds,
        **vars(solved),
        fit_intercept=flags.tolist(),
        n_passes=described.n_passes,
        refit=refit,
        attributes=attributes,
        flat_coef=batch.y_is_flat or (flat_coef and batch.y.shape[1] == 1),
        described=described,
    )


def by_intercept(
    fit_intercept: np.ndarray, solve: Callable[[np.ndarray], LinearModels]
) -> LinearModels:
    """Models of all candidates from ``solve`` of a mask of those that agree on the intercept."""
    masks = [fit_intercept == flag for flag in (True, False) if (fit_intercept == flag).any()]
    solved = [solve(mask) for mask in masks]
    if len(solved) == 1:
        return solved[0]
    order = np.argsort(np.concatenate([np.flatnonzero(mask) for mask in masks]))
    return taken(solved, order)


def taken(parts: Sequence[LinearModels], order: np.ndarray) -> LinearModels:
    """Candidates of several models, in an order."""
    xp = namespace(parts[0].coef)
    index = xp.asarray(order, device=device_of(parts[0].coef))

    def take(name):
        values = [getattr(part, name) for part in parts]
        if values[0] is None:
            return None
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)[order]
        return xp.take(xp.concat(values), index, axis=0)

    return LinearModels(*(take(field.name) for field in fields(LinearModels)))
