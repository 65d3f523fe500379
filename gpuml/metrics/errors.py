"""Errors of regression: 0 at best, evaluated where the predictions are.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to the host.
"""

from gpuml.metrics._single import evaluate_one


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
    return evaluate_one(
        "mean_squared_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


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
    return evaluate_one(
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
    return evaluate_one(
        "mean_absolute_error", y_true, y_pred, sample_weight, multioutput=multioutput
    )


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
    return evaluate_one(
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
    return evaluate_one(
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
    return evaluate_one(
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
    return evaluate_one(
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
    return evaluate_one(
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
    return evaluate_one("max_error", y_true, y_pred)
