"""Sparse linear models of all candidates on all splits, as a search sees them."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import Array, namespace, to_host
from gpuml._arrays.ops import all_finite, constant
from gpuml._inputs.validation import check_finite, check_rows_finite
from gpuml._settings.config import current_settings
from gpuml.data import Batch, Folds, NeedsAllRows, whole
from gpuml.linear_model._responses import Predicting, Predictions
from gpuml.linear_model._stack import (
    at_home,
    fitted_attributes,
    of_rows,
    residual_moments,
)
from gpuml.metrics.residuals import ResidualMoments
from gpuml.solvers.described import Described
from gpuml.solvers.lasso import (
    Penalties,
    SparseModels,
    describe_columns,
    solve_described,
    standardise,
)
from gpuml.solvers.working_set import is_wide, solve_wide, steepest_slope

Advance = Callable[[int], None]


@dataclass(frozen=True)
class SparseStack(Predicting):
    """What `multifit` of a sparse linear regressor returns.

    Attributes
    ----------
    folds : Folds
    models : SparseModels
        Of all features.
    described : Described
        Moments, of some columns only where there are many.
    inner : SparseModels
        The same models on those columns.
    columns : int ndarray or None
        Those columns; None for all.
    penalties : Penalties
    tol, max_iter : float, int
        As for the estimator.
    n_passes : int
        How often the rows were read.
    """

    folds: Folds
    models: SparseModels
    described: Described
    inner: SparseModels
    columns: np.ndarray | None
    penalties: Penalties
    tol: float
    max_iter: int
    n_passes: int

    @property
    def n_candidates(self) -> int:
        return len(self.penalties)

    @cached_property
    def models_of_rows(self) -> SparseModels:
        """The models as functions of the rows, where they are of the rows' images in a frame."""
        return of_rows(self.folds, self.models)

    @property
    def responses(self) -> Predictions:
        """What the models say of rows, without any rows."""
        models = self.models_of_rows
        return Predictions(models.coef, models.intercept, self.folds.batch.y_is_flat)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        models = self.models
        if split is None:
            models = self._of_all_rows(slice(candidate, candidate + 1))
            fit_intercept = bool(self.penalties.fit_intercept[candidate])
            candidate = split = 0
        else:
            fit_intercept = bool(self.penalties.fit_intercept[candidate])
        batch = self.folds.batch
        flat = batch.y.shape[1] == 1
        n_iter, gap = models.n_iter[candidate, split], models.gap[candidate, split, ...]
        return {
            **fitted_attributes(batch, models, candidate, split, fit_intercept, flat),
            "n_iter_": int(n_iter[0]) if flat else n_iter.tolist(),
            "dual_gap_": to_host(gap)[0] if flat else at_home(gap, batch),
        }

    def _of_all_rows(self, index):
        """Models of some candidates on all rows: no further pass where all features are known."""
        penalties = self.penalties.of(index)
        if self.columns is None:
            models = solve_described(self.described, penalties, self.max_iter, all_rows=True)
        else:
            # Other features may matter to all rows than to parts of them.
            folds, settings = whole(self.folds.batch), current_settings()
            models = solve_wide(
                folds,
                penalties,
                self.max_iter,
                self.columns,
                check=lambda moments: None,
                block_bytes=settings.block_bytes,
            ).models
        warn_unless_converged(models, self.tol, self.max_iter)
        return models

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array]:
        """Weighted sums of the residuals of every model over its "train" or "test" rows."""
        inner = self.models_of_rows if self.columns is None else self.inner
        return residual_moments(self.described, inner, part)


def stack_sparse(
    estimator: Any,
    folds: Folds,
    penalties: Penalties,
    advance: Advance | None = None,
    start: np.ndarray | None = None,
    described: Described | None = None,
) -> SparseStack:
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
    described = described or describe_sparse(estimator, folds, advance)
    if described is None:
        fit = solve_wide(
            folds,
            penalties,
            max_iter,
            start=start,
            check=lambda moments: _check_sums(moments, folds.batch, estimator),
            block_bytes=current_settings().block_bytes,
            advance=advance,
        )
        models, described, inner, columns = fit.models, fit.described, fit.inner, fit.columns
        n_passes = fit.n_passes
    else:
        columns, n_passes = None, described.n_passes
        if start is not None:
            like = (described.moments or ())[0].gram
            start = constant(start, like=like, xp=described.place.xp)
        models = inner = solve_described(described, penalties, max_iter, start)
    warn_unless_converged(models, tol, max_iter)
    return SparseStack(folds, models, described, inner, columns, penalties, tol, max_iter, n_passes)


def describe_sparse(
    estimator: Any, folds: Folds, advance: Advance | None = None
) -> Described | None:
    """Moments of all features, or None where there are too many of them for that."""
    batch = folds.batch
    if folds.frame is None and is_wide(batch):
        if batch.holders is not None:
            raise NeedsAllRows(
                f"Models of {batch.n_features} features are searched for column by column, which "
                "needs the rows in one place."
            )
        check_finite(batch.X, "X", estimator)
        return None
    block_bytes = current_settings().block_bytes
    described = describe_columns(folds, block_bytes=block_bytes, advance=advance)
    _check_sums(described, batch, estimator)
    return described


def largest_slope(folds: Folds, described: Described | None, fit_intercept: bool) -> float:
    """``max_j |x_j' (y - mean)| / sum w`` over all rows: the smallest alpha of no coefficients."""
    if described is None:
        block_bytes = current_settings().block_bytes
        return steepest_slope(whole(folds.batch), fit_intercept, block_bytes)
    moments = (described.moments or ())[0]
    total = moments.combine(np.ones((1, moments.gram.shape[0])))
    slopes = standardise(total, fit_intercept).g
    xp = namespace(slopes)
    return float(xp.max(xp.abs(slopes)))


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
            f"y, and tol={tol:g} was asked for.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _check_sums(described: Described, batch: Batch, estimator: Any) -> None:
    moments = described.moments or ()
    if all(all_finite(part.gram, described.place.xp) for part in moments):
        return
    check_rows_finite(batch, estimator)
    raise ValueError(
        "Squares of the values of X or y overflow float64. Scale the features and targets "
        "(StandardScaler, or divide by a power of ten)."
    )
