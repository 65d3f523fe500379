"""Lasso and elastic net: all candidates on all splits, from moments of all or some columns."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import Array, namespace, to_host
from gpuml._arrays.ops import constant
from gpuml._inputs.validation import check_finite
from gpuml._settings.config import current_settings
from gpuml.data import Folds, whole
from gpuml.linear_model._base import check_sums, describe_rows
from gpuml.linear_model._models import Models, RegressionModels, at_home
from gpuml.solvers.described import Described
from gpuml.solvers.lasso import (
    Penalties,
    SparseModels,
    solve_described,
    standardise,
)
from gpuml.solvers.working_set import is_wide, solve_wide, steepest_slope

Advance = Callable[[int], None]
# What a plan says of few rows of a GPU.
IN_CPU_MEMORY = "paths of few rows are followed in CPU memory"


def solve_sparse(
    estimator: Any,
    folds: Folds,
    penalties: Penalties,
    advance: Advance | None = None,
    start: np.ndarray | None = None,
    described: Described | None = None,
) -> RegressionModels:
    """Fit all candidates on all splits.

    Parameters
    ----------
    estimator : estimator
        With `tol` and `max_iter`; named in messages.
    folds : Folds
    penalties : Penalties
    advance : callable, optional
        Called with the number of rows read since the last call.
    start : array (t, p), host, optional
        Coefficients to start from.
    described : Described, optional
        From `describe_sparse`, if that was done before.
    """
    max_iter, tol = estimator.max_iter or 1000, estimator.tol

    def refit(models, candidate):
        """No further pass where all features are known; else others may matter to all rows."""
        some = penalties.of(slice(candidate, candidate + 1))
        if models.described is not None and models.columns is None:
            one = solve_described(models.described, some, max_iter, all_rows=True)
        else:
            # Start near the model of one split, if rows were followed in CPU memory.
            near = to_host(models.coef[candidate, 0, ...]) if models.columns is None else None
            one = solve_wide(
                whole(folds.batch),
                some,
                max_iter,
                models.columns,
                near,
                check=lambda moments: None,
                block_bytes=current_settings().block_bytes,
            ).models
        warn_unless_converged(one, tol, max_iter)
        flags = some.fit_intercept.tolist()
        return replace(models, **_of_model(one), fit_intercept=flags, of_all_rows=True)

    columns = None
    described = described or describe_sparse(estimator, folds, advance)
    if described is None:
        fit = solve_wide(
            folds,
            penalties,
            max_iter,
            start=start,
            check=lambda moments: check_sums(moments, folds.batch, estimator),
            block_bytes=current_settings().block_bytes,
            advance=advance,
        )
        solved, described, columns, n_passes = fit.models, fit.described, fit.columns, fit.n_passes
    else:
        n_passes = described.n_passes
        if start is not None:
            like = (described.moments or ())[0].gram
            start = constant(start, like=like, xp=described.place.xp)
        solved = solve_described(described, penalties, max_iter, start)
    warn_unless_converged(solved, tol, max_iter)
    return RegressionModels(
        folds=folds,
        **_of_model(solved),
        fit_intercept=penalties.fit_intercept.tolist(),
        n_passes=n_passes,
        refit=refit,
        flat_coef=folds.batch.y.shape[1] == 1,
        described=described,
        columns=columns,
        words="" if described is not None or folds.batch.work.is_host else IN_CPU_MEMORY,
    )


def _of_model(solved: SparseModels) -> dict[str, Any]:
    """The fields of `Models` that come from a solver."""
    names = ("coef", "intercept", "status", "n_iter")
    known = {name: getattr(solved, name) for name in names}
    return {**known, "attributes": partial(_attributes, solved.gap)}


def _attributes(gap: Array, models: Models, candidate: int, split: int) -> dict[str, Any]:
    batch = models.folds.batch
    n_iter, gap = models.iterations_of(candidate, split), gap[candidate, split, ...]
    one = models.flat_coef
    return {
        "n_iter_": int(n_iter[0]) if one else n_iter.tolist(),
        "dual_gap_": to_host(gap)[0] if one else at_home(gap, batch),
    }


def describe_sparse(
    estimator: Any, folds: Folds, advance: Advance | None = None
) -> Described | None:
    """Moments of all features, or None if there are too many features."""
    batch = folds.batch
    if folds.frame is None and is_wide(batch):
        batch.must_be_here(
            f"Models of {batch.n_features} features are searched for column by column, which "
            "needs the rows in one place."
        )
        check_finite(batch.X, "X", estimator)
        return None
    return describe_rows(estimator, folds, advance, by_features=True)


def largest_slope(folds: Folds, described: Described | None, fit_intercept: bool) -> float:
    """``max_j |x_j' (y - mean)| / sum w`` over all rows: the smallest alpha of no coefficients.

    Of several targets, it is the norm of their slopes.
    """
    if described is None:
        block_bytes = current_settings().block_bytes
        return steepest_slope(whole(folds.batch), fit_intercept, block_bytes)
    moments = (described.moments or ())[0]
    total = moments.combine(np.ones((1, moments.gram.shape[0])))
    slopes = standardise(total, fit_intercept).g
    xp = namespace(slopes)
    return float(xp.max(xp.sum(slopes**2, axis=1))) ** 0.5


def penalties_of(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> Penalties:
    """Penalties of candidates; what one leaves out is as on the estimator."""
    names = ("alpha", "l1_ratio", "fit_intercept")
    values = ([c.get(name, getattr(estimator, name)) for c in candidates] for name in names)
    alpha, l1_ratio, fit_intercept = values
    return Penalties(
        np.asarray(alpha, dtype=float),
        np.asarray(l1_ratio, dtype=float),
        np.asarray(fit_intercept, dtype=bool),
    )


def warn_unless_converged(models: SparseModels, tol: float, max_iter: int) -> None:
    """Say how many models stopped early, and what to do about it."""
    early = ~models.converged(tol)
    if early.any():
        ratio = to_host(models.gap)[early] / np.maximum(to_host(models.y_square)[early], 1e-300)
        warnings.warn(
            # Filters of users match scikit-learn's words at the start.
            "Objective did not converge. You might want to increase the number of iterations, "
            f"raise alpha, or scale the features: {early.sum()} of {early.size} models stopped at "
            f"max_iter={max_iter} with a duality gap of up to {ratio.max():.1e} of the variance of "
            f"y, above tol={tol:g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
