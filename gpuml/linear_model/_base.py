"""What the linear regressors share: prediction, score, and fitting as a batch of one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, move, namespace, place_of
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import FitData, check_fit, check_predict, check_rows_finite
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import check_same_namespace
from gpuml.data import Batch, Folds, resident
from gpuml.extending import MultifitEstimator
from gpuml.metrics.regression import r2_score
from gpuml.solvers.described import Described, describe

Advance = Callable[[int], None]


# What `explain` takes for the steps of iterative solvers.
USUAL_STEPS = 10


def work_of_steps(n_rows: int, n_features: int, n_models: int) -> tuple[None, float]:
    """What margins and gradients of all models cost in every step; see `multifit_work`."""
    return None, USUAL_STEPS * 4.0 * n_rows * n_features * n_models


class OnePass(MultifitEstimator):
    """An estimator that `multifit` fits from moments: what it is going to read."""

    # `multifit` fits models of what affine steps before them make of the rows.
    multifit_in_frames = True
    multifit_divided = True

    def multifit_rows(self, folds: Folds) -> int:
        """Rows that `multifit` reads: all of them once for each partition of the splits."""
        return len(folds.partitions) * folds.batch.n_rows

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """One pass for the moments, and a small system for each model."""
        size = n_features + n_targets + 1
        return 1, 2.0 * n_rows * size**2 + n_models * size**3


class LinearPredictor(Travels):
    """`predict` and `score` of a model with `coef_` and `intercept_`."""

    # What `score` returns, so that a search can score all models at once.
    multifit_score: str | None = "r2"

    def predict(self, X):
        """Predict targets ``X coef_' + intercept_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)
            In the library and on the device of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than the X of `fit`, or holds nan or inf.
        """
        check_is_fitted(self)
        X = as_array(X)
        # Only with scikit-learn's array-API dispatch on, and then by its rule: no mixing.
        check_same_namespace(X, self, attribute="coef_", method="predict")
        if sparse.issparse(X):
            with naming_columns(self, X):
                return super().predict(X)
        return linear_response(self, X)

    def score(self, X, y, sample_weight=None):
        """Coefficient of determination ``R^2 = 1 - sum w (y - f(X))^2 / sum w (y - mean)^2``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            At most 1; 0 for a model that always predicts the mean of y. Evaluated on the device of
            X; only this number comes to the host.
        """
        return r2_score(y, self.predict(X), sample_weight=sample_weight)


def multifit_batch(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, numeric_strings: bool = False
) -> Batch:
    """Check what a fit or a search was given, and bring it to where it is worked on."""
    data: FitData = check_fit(
        estimator, X, y, sample_weight, finite_X=False, numeric_strings=numeric_strings
    )
    return resident(*data, current_settings().device)


def describe_rows(
    estimator: Any, folds: Folds, advance: Advance | None = None, *, careful: bool = False
) -> Described:
    """Describe rows whose finiteness was not looked at: sums over them tell for free.

    `careful` asks for solutions from factors of the rows whatever the condition number.
    """
    settings = current_settings()
    described = describe(folds, block_bytes=settings.block_bytes, advance=advance, careful=careful)
    if not described.is_finite:
        check_rows_finite(folds.batch, estimator)
        raise ValueError(
            "Squares of the values of X or y overflow float64. Scale the features and targets "
            "(StandardScaler, or divide by a power of ten)."
        )
    return described


def linear_response(estimator: Any, X: Any) -> Array:
    """``X coef_' + intercept_`` where X is, of rows that are checked here."""
    X = check_predict(estimator, X)
    return _linear(X, *_model_in_place_of(X, estimator.coef_, estimator.intercept_))


def _model_in_place_of(X: Array, coef: Any, intercept: Any) -> tuple[Array, Any]:
    place = place_of(X)
    xp = place.xp
    coef = coef if place_of(coef) == place else move(coef, place)
    if not isinstance(intercept, float | np.floating):
        intercept = xp.astype(move(intercept, place), X.dtype)
    return xp.astype(coef, X.dtype, copy=False), intercept


def _linear(X, coef, intercept):
    xp = namespace(X)
    if isinstance(intercept, np.floating):
        intercept = float(intercept)  # keeps float32 predictions float32
    return X @ (coef if coef.ndim == 1 else xp.matrix_transpose(coef)) + intercept
