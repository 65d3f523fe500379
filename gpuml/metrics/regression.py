"""Regression metrics with scikit-learn's names: scores here, errors and deviances beside.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to the host.
"""

from gpuml.metrics._single import evaluate_one
from gpuml.metrics.deviances import (
    d2_tweedie_score,
    mean_gamma_deviance,
    mean_poisson_deviance,
    mean_tweedie_deviance,
)
from gpuml.metrics.errors import (
    max_error,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_pinball_loss,
    mean_squared_error,
    mean_squared_log_error,
    median_absolute_error,
    root_mean_squared_error,
    root_mean_squared_log_error,
)

__all__ = [
    "d2_absolute_error_score",
    "d2_pinball_score",
    "d2_tweedie_score",
    "explained_variance_score",
    "max_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_gamma_deviance",
    "mean_pinball_loss",
    "mean_poisson_deviance",
    "mean_squared_error",
    "mean_squared_log_error",
    "mean_tweedie_deviance",
    "median_absolute_error",
    "r2_score",
    "root_mean_squared_error",
    "root_mean_squared_log_error",
]


def r2_score(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average", force_finite=True
):
    """Coefficient of determination.

    .. code-block:: text

        1 - sum w (y - f)^2 / sum w (y - mean)^2

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    multioutput : {"raw_values", "uniform_average", "variance_weighted"}, None \
            or array-like of shape (n_outputs,), default="uniform_average"
        How the scores of several targets are averaged: not at all, evenly, weighted by their
        variances, or with the given weights. None is even.
    force_finite : bool, default=True
        Whether a constant y gives 1 (perfect) or 0 rather than nan or -inf.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import r2_score
    >>> round(r2_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.9353
    """
    return evaluate_one(
        "r2_score",
        y_true,
        y_pred,
        sample_weight,
        multioutput=multioutput,
        force_finite=force_finite,
    )


def explained_variance_score(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average", force_finite=True
):
    """Share of the variance of y that is explained.

    .. code-block:: text

        1 - Var(y - f) / Var(y)

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    multioutput : {"raw_values", "uniform_average", "variance_weighted"} \
            or array-like of shape (n_outputs,), default="uniform_average"
        How the scores of several targets are averaged: not at all, evenly, weighted by their
        variances, or with the given weights.
    force_finite : bool, default=True
        Whether a constant y gives 1 (perfect) or 0 rather than nan or -inf.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import explained_variance_score
    >>> round(explained_variance_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.9461
    """
    return evaluate_one(
        "explained_variance_score",
        y_true,
        y_pred,
        sample_weight,
        multioutput=multioutput,
        force_finite=force_finite,
    )


def d2_pinball_score(
    y_true, y_pred, *, sample_weight=None, alpha=0.5, multioutput="uniform_average"
):
    """Share of the pinball loss that is explained.

    .. code-block:: text

        1 - pinball(y, f) / pinball(y, quantile)

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    alpha : float, default=0.5
        Level of the quantile, from 0 to 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged: not at all, evenly, or with the given
        weights.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import d2_pinball_score
    >>> round(d2_pinball_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.7333
    """
    return evaluate_one(
        "d2_pinball_score", y_true, y_pred, sample_weight, alpha=alpha, multioutput=multioutput
    )


def d2_absolute_error_score(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Share of the absolute error that is explained.

    .. code-block:: text

        1 - MAE(y, f) / MAE(y, median)

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged: not at all, evenly, or with the given
        weights.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import d2_absolute_error_score
    >>> round(d2_absolute_error_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.7333
    """
    return evaluate_one(
        "d2_absolute_error_score", y_true, y_pred, sample_weight, multioutput=multioutput
    )
