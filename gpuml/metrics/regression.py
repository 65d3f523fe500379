"""Regression metrics with scikit-learn's names, evaluated where the predictions are.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to the host.
"""

from typing import Any

from gpuml.metrics._batched import METRICS, evaluate
from gpuml.metrics._input import check_parameters, check_targets
from gpuml.metrics._outputs import is_raw


def _evaluate(
    name: str, y_true: Any, y_pred: Any, sample_weight: Any = None, **options: Any
) -> Any:
    """A metric as a batch of one: a float, or an array (t,) for raw values."""
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
    check_parameters(name, {**given, **options})
    y_true, y_pred, weight = check_targets(y_true, y_pred, sample_weight)
    result = evaluate(name, y_true, y_pred[None, ...], weight, options)
    if not is_raw(options):
        return float(result[0])
    # One row has no raw values where the score of one row is undefined, as in scikit-learn.
    undefined = METRICS[name].needs_two_rows and y_true.shape[0] < 2
    return float("nan") if undefined else result[0, ...]


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
    return _evaluate(
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
    return _evaluate(
        "explained_variance_score",
        y_true,
        y_pred,
        sample_weight,
        multioutput=multioutput,
        force_finite=force_finite,
    )


def mean_squared_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean squared error.

    .. code-block:: text

        sum w (y - f)^2 / sum w

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
        In squared units of y; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import mean_squared_error
    >>> round(mean_squared_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.375
    """
    return _evaluate("mean_squared_error", y_true, y_pred, sample_weight, multioutput=multioutput)


def root_mean_squared_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Root of the mean squared error.

    .. code-block:: text

        sqrt(sum w (y - f)^2 / sum w)

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
        In units of y; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import root_mean_squared_error
    >>> round(root_mean_squared_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.6124
    """
    return _evaluate(
        "root_mean_squared_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


def mean_absolute_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean absolute error.

    .. code-block:: text

        sum w |y - f| / sum w

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
        In units of y; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import mean_absolute_error
    >>> round(mean_absolute_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.5
    """
    return _evaluate("mean_absolute_error", y_true, y_pred, sample_weight, multioutput=multioutput)


def median_absolute_error(y_true, y_pred, *, multioutput="uniform_average", sample_weight=None):
    """Weighted median of absolute errors.

    .. code-block:: text

        median |y - f|

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
        In units of y; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import median_absolute_error
    >>> round(median_absolute_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.5
    """
    return _evaluate(
        "median_absolute_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


def mean_absolute_percentage_error(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"
):
    """Mean absolute error relative to y.

    .. code-block:: text

        sum w |y - f| / max(|y|, eps) / sum w

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
        A share, not a percentage; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import mean_absolute_percentage_error
    >>> round(mean_absolute_percentage_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.3274
    """
    return _evaluate(
        "mean_absolute_percentage_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


def mean_squared_log_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean squared error of logarithms.

    .. code-block:: text

        sum w (log(1 + y) - log(1 + f))^2 / sum w

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred. All values > -1.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged: not at all, evenly, or with the given
        weights.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.

    Examples
    --------
    >>> from gpuml.metrics import mean_squared_log_error
    >>> round(mean_squared_log_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.0286
    """
    return _evaluate(
        "mean_squared_log_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


def root_mean_squared_log_error(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"
):
    """Root of the mean squared error of logarithms.

    .. code-block:: text

        sqrt(sum w (log(1 + y) - log(1 + f))^2 / sum w)

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred. All values > -1.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged: not at all, evenly, or with the given
        weights.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.

    Examples
    --------
    >>> from gpuml.metrics import root_mean_squared_log_error
    >>> round(root_mean_squared_log_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.1692
    """
    return _evaluate(
        "root_mean_squared_log_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


def mean_pinball_loss(
    y_true, y_pred, *, sample_weight=None, alpha=0.5, multioutput="uniform_average"
):
    """Loss of a quantile regression at level a.

    .. code-block:: text

        sum w max(a (y - f), (a - 1) (y - f)) / sum w

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
        In units of y; 0 at best. Raw values are float64, where y_pred is.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import mean_pinball_loss
    >>> round(mean_pinball_loss([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.25
    """
    return _evaluate(
        "mean_pinball_loss", y_true, y_pred, sample_weight, alpha=alpha, multioutput=multioutput
    )


def max_error(y_true, y_pred):
    """Largest absolute error.

    .. code-block:: text

        max |y - f|

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.

    Returns
    -------
    value : float
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range.

    Examples
    --------
    >>> from gpuml.metrics import max_error
    >>> round(max_error([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    1.0
    """
    return _evaluate("max_error", y_true, y_pred)


def mean_tweedie_deviance(y_true, y_pred, *, sample_weight=None, power=0):
    """Mean deviance of a Tweedie model of power p.

    .. code-block:: text

        sum w d_p(y, f) / sum w

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    power : float, default=0
        p: 0 normal, 1 Poisson, 2 gamma, 3 inverse Gaussian; not between 0 and 1. Below 0 needs
        y_pred > 0; from 1, y_true >= 0 and y_pred > 0; from 2, both > 0.

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.

    Examples
    --------
    >>> from gpuml.metrics import mean_tweedie_deviance
    >>> round(mean_tweedie_deviance([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.375
    """
    return _evaluate("mean_tweedie_deviance", y_true, y_pred, sample_weight, power=power)


def mean_poisson_deviance(y_true, y_pred, *, sample_weight=None):
    """Mean deviance of a Poisson model.

    .. code-block:: text

        2 sum w (y log(y / f) - y + f) / sum w

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred. y_true >= 0 and y_pred > 0.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.

    Examples
    --------
    >>> from gpuml.metrics import mean_poisson_deviance
    >>> round(mean_poisson_deviance([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.1328
    """
    return _evaluate("mean_poisson_deviance", y_true, y_pred, sample_weight)


def mean_gamma_deviance(y_true, y_pred, *, sample_weight=None):
    """Mean deviance of a gamma model.

    .. code-block:: text

        2 sum w (log(f / y) + y / f - 1) / sum w

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred. All values > 0.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.

    Examples
    --------
    >>> from gpuml.metrics import mean_gamma_deviance
    >>> round(mean_gamma_deviance([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.1097
    """
    return _evaluate("mean_gamma_deviance", y_true, y_pred, sample_weight)


def d2_tweedie_score(y_true, y_pred, *, sample_weight=None, power=0):
    """Share of the Tweedie deviance that is explained.

    .. code-block:: text

        1 - dev(y, f) / dev(y, mean)

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Correct and predicted targets, of any array library. Those that live elsewhere are brought
        to the library and device of y_pred.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights w of the rows; None weighs each 1.
    power : float, default=0
        p: 0 normal, 1 Poisson, 2 gamma, 3 inverse Gaussian; not between 0 and 1. Below 0 needs
        y_pred > 0; from 1, y_true >= 0 and y_pred > 0; from 2, both > 0.

    Returns
    -------
    value : float
        At most 1.

    Raises
    ------
    ValueError
        Lengths or numbers of targets that differ, nan or inf, a parameter out of range, values
        outside the metric's domain.
    ZeroDivisionError
        If y_true is constant.

    Warns
    -----
    sklearn.exceptions.UndefinedMetricWarning
        If there is one row; the value is nan.

    Examples
    --------
    >>> from gpuml.metrics import d2_tweedie_score
    >>> round(d2_tweedie_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.9353
    """
    return _evaluate("d2_tweedie_score", y_true, y_pred, sample_weight, power=power)


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
    return _evaluate(
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
    return _evaluate(
        "d2_absolute_error_score", y_true, y_pred, sample_weight, multioutput=multioutput
    )
