"""Deviances of generalised linear models, evaluated where the predictions are.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to the host.
"""

from gpuml.metrics._single import evaluate_one


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
    return evaluate_one("mean_tweedie_deviance", y_true, y_pred, sample_weight, power=power)


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
    return evaluate_one("mean_poisson_deviance", y_true, y_pred, sample_weight)


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
    return evaluate_one("mean_gamma_deviance", y_true, y_pred, sample_weight)


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
    return evaluate_one("d2_tweedie_score", y_true, y_pred, sample_weight, power=power)
