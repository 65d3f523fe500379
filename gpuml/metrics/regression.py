"""Regression metrics with scikit-learn's names, evaluated where the predictions are.

Host input goes to scikit-learn's function of the same name. Arrays of other libraries and devices
are reduced in float64 where they are, and one number comes to the host.
"""

from typing import Any

import numpy as np
import sklearn.metrics as sk
from sklearn.utils.validation import check_consistent_length

from gpuml._arrays import as_array, is_array, is_numpy, move, namespace, place_of, to_host
from gpuml._ops import all_finite
from gpuml.metrics._batched import AVERAGES, FRACTION_AVERAGES, METRICS, evaluate


def _evaluate(
    name: str, y_true: Any, y_pred: Any, sample_weight: Any = None, **options: Any
) -> Any:
    y_true, y_pred, sample_weight = (as_array(a) for a in (y_true, y_pred, sample_weight))
    if not any(is_array(a) and not is_numpy(a) for a in (y_true, y_pred)):
        weight = {} if sample_weight is None else {"sample_weight": _on_host(sample_weight)}
        return getattr(sk, name)(y_true, y_pred, **weight, **options)
    place = place_of(y_pred if is_array(y_pred) and not is_numpy(y_pred) else y_true)
    check_consistent_length(y_true, y_pred, sample_weight)
    pred = _column(y_pred, "y_pred", place)
    true = _column(y_true, "y_true", place)
    if true.shape[1] != pred.shape[1]:
        raise ValueError(
            f"y_true and y_pred have different number of output ({true.shape[1]}!={pred.shape[1]})"
        )
    _check_average(options.get("multioutput"), true.shape[1], METRICS[name].options)
    weight = None if sample_weight is None else _column(sample_weight, "sample_weight", place)[:, 0]
    result = evaluate(name, true, pred[None, ...], weight, options)
    if result.ndim > 1:  # raw values
        return result[0, ...]
    return float(result[0])


def _on_host(x):
    return to_host(x) if is_array(x) else x


def _column(x, name, place):
    x = move(x if is_array(x) else np.asarray(x), place)
    xp = namespace(x)
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two axes, got shape {tuple(x.shape)}.")
    if x.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={tuple(x.shape)}) for {name} while a minimum of "
            "1 is required."
        )
    if xp.isdtype(x.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported\n{name} has dtype {x.dtype}.")
    x = xp.astype(x, xp.float64)
    if not all_finite(x, xp):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return x[:, None] if x.ndim == 1 else x


def _check_average(multioutput, n_targets, options):
    if multioutput is None:
        return
    allowed = FRACTION_AVERAGES if "force_finite" in options else AVERAGES
    if isinstance(multioutput, str):
        if multioutput not in allowed:
            raise ValueError(
                f"Allowed 'multioutput' string values are {allowed}. You provided "
                f"multioutput={multioutput!r}"
            )
        return
    if n_targets == 1:
        raise ValueError("Custom weights are useful only in multi-output cases.")
    if len(multioutput) != n_targets:
        raise ValueError(
            f"There must be equally many custom weights ({len(multioutput)}) as outputs "
            f"({n_targets})."
        )


def r2_score(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average", force_finite=True
):
    """Coefficient of determination.

    .. code-block:: text

        1 - sum w (y - f)^2 / sum w (y - mean)^2

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average", "variance_weighted"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.
    force_finite : bool, default=True
        Whether a constant y gives 1 (perfect) or 0 rather than nan or -inf.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average", "variance_weighted"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.
    force_finite : bool, default=True
        Whether a constant y gives 1 (perfect) or 0 rather than nan or -inf.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        In squared units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        A share, not a percentage; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    alpha : float, default=0.5
        Level of the quantile, from 0 to 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.

    Returns
    -------
    value : float
        In units of y; 0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    power : float, default=0
        p: 0 normal, 1 Poisson, 2 gamma; not between 0 and 1.

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    value : float
        0 at best.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    power : float, default=0
        p: 0 normal, 1 Poisson, 2 gamma; not between 0 and 1.

    Returns
    -------
    value : float
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf, values outside the metric's domain.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    alpha : float, default=0.5
        Level of the quantile, from 0 to 1.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

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
        Correct and predicted targets, of any array library.
    sample_weight : array-like of shape (n_samples,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (n_outputs,), \
            default="uniform_average"
        How the values of several targets are averaged.

    Returns
    -------
    value : float, or array of shape (n_outputs,) for raw values
        At most 1.

    Raises
    ------
    ValueError
        Lengths that differ, nan or inf.

    Examples
    --------
    >>> from gpuml.metrics import d2_absolute_error_score
    >>> round(d2_absolute_error_score([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)
    0.7333
    """
    return _evaluate(
        "d2_absolute_error_score", y_true, y_pred, sample_weight, multioutput=multioutput
    )
