"""Metrics of regression with scikit-learn's names: scores, errors and deviances.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to the host. What a metric can do is in its row of `gpuml.metrics._batched.METRICS`.
"""

from collections.abc import Callable

from gpuml.metrics._batched import METRICS
from gpuml.metrics._docs import Function, documented
from gpuml.metrics._single import evaluate_one

_MULTIOUTPUT = """multioutput : {"raw_values", "uniform_average"} or array-like of shape \
(n_outputs,), default="uniform_average"
    How the values of several targets are averaged: not at all, evenly, or with the given
    weights."""
_FRACTIONS = """multioutput : {"raw_values", "uniform_average", "variance_weighted"}%s \
or array-like of shape (n_outputs,), default="uniform_average"
    How the scores of several targets are averaged: not at all, evenly, weighted by their
    variances, or with the given weights.%s"""
_OPTIONS = {
    "force_finite": """force_finite : bool, default=True
    Whether a constant y gives 1 (perfect) or 0 rather than nan or -inf.""",
    "alpha": """alpha : float, default=0.5
    Level of the quantile, from 0 to 1.""",
    "power": """power : float, default=0
    p: 0 normal, 1 Poisson, 2 gamma, 3 inverse Gaussian; not between 0 and 1. Below 0 needs
    y_pred > 0; from 1, y_true >= 0 and y_pred > 0; from 2, both > 0.""",
}


def _metric(
    result: str, value: str, domain: str = "", raises: str = "", multioutput: str = _MULTIOUTPUT
) -> Callable[[Function], Function]:
    """Describe a metric: what comes back, the example's value, and what its row in METRICS says."""

    def decorate(function):
        name = function.__name__
        metric = METRICS[name]
        outputs = "" if metric.single_target else " or (n_samples, n_outputs)"
        returns = f"value : float\n    {result}."
        if not metric.single_target:
            returns = (
                "value : float, or array of shape (n_outputs,) for raw values\n"
                f"    {result}. Raw values are float64, where y_pred is."
            )
        outside = ", values\n    outside the metric's domain" if metric.domain is not None else ""
        return documented(
            returns,
            f"round({name}([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)",
            value,
            raises="ValueError\n    Lengths or numbers of targets that differ, nan or inf, a "
            f"parameter out of range{outside}.{raises}",
            warns=(
                "sklearn.exceptions.UndefinedMetricWarning\n"
                "    If there is one row; the value is nan."
                if metric.needs_two_rows
                else ""
            ),
            y_pred=f"y_true, y_pred : array-like of shape (n_samples,){outputs}\n"
            "    Correct and predicted targets, of any array library. Those that live elsewhere are"
            f" brought\n    to the library and device of y_pred.{domain}",
            multioutput=multioutput,
            **_OPTIONS,
        )(function)

    return decorate


# ---------------------------------------------------------------- scores


@_metric("At most 1", "0.9353", multioutput=_FRACTIONS % (", None", " None is even."))
def r2_score(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average", force_finite=True
):
    """Coefficient of determination.

    .. code-block:: text

        1 - sum w (y - f)^2 / sum w (y - mean)^2
    """
    options = {"multioutput": multioutput, "force_finite": force_finite}
    return evaluate_one("r2_score", y_true, y_pred, sample_weight, **options)


@_metric("At most 1", "0.9461", multioutput=_FRACTIONS % ("", ""))
def explained_variance_score(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average", force_finite=True
):
    """Share of the variance of y that is explained.

    .. code-block:: text

        1 - Var(y - f) / Var(y)
    """
    options = {"multioutput": multioutput, "force_finite": force_finite}
    return evaluate_one("explained_variance_score", y_true, y_pred, sample_weight, **options)


@_metric("At most 1", "0.7333")
def d2_pinball_score(
    y_true, y_pred, *, sample_weight=None, alpha=0.5, multioutput="uniform_average"
):
    """Share of the pinball loss that is explained.

    .. code-block:: text

        1 - pinball(y, f) / pinball(y, quantile)
    """
    options = {"alpha": alpha, "multioutput": multioutput}
    return evaluate_one("d2_pinball_score", y_true, y_pred, sample_weight, **options)


@_metric("At most 1", "0.7333")
def d2_absolute_error_score(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Share of the absolute error that is explained.

    .. code-block:: text

        1 - MAE(y, f) / MAE(y, median)
    """
    options = {"multioutput": multioutput}
    return evaluate_one("d2_absolute_error_score", y_true, y_pred, sample_weight, **options)


# ---------------------------------------------------------------- errors


@_metric("In squared units of y; 0 at best", "0.375")
def mean_squared_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean squared error.

    .. code-block:: text

        sum w (y - f)^2 / sum w
    """
    options = {"multioutput": multioutput}
    return evaluate_one("mean_squared_error", y_true, y_pred, sample_weight, **options)


@_metric("In units of y; 0 at best", "0.6124")
def root_mean_squared_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Root of the mean squared error.

    .. code-block:: text

        sqrt(sum w (y - f)^2 / sum w)
    """
    options = {"multioutput": multioutput}
    return evaluate_one("root_mean_squared_error", y_true, y_pred, sample_weight, **options)


@_metric("In units of y; 0 at best", "0.5")
def mean_absolute_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean absolute error.

    .. code-block:: text

        sum w |y - f| / sum w
    """
    options = {"multioutput": multioutput}
    return evaluate_one("mean_absolute_error", y_true, y_pred, sample_weight, **options)


@_metric("In units of y; 0 at best", "0.5")
def median_absolute_error(y_true, y_pred, *, multioutput="uniform_average", sample_weight=None):
    """Weighted median of absolute errors.

    .. code-block:: text

        median |y - f|
    """
    options = {"multioutput": multioutput}
    return evaluate_one("median_absolute_error", y_true, y_pred, sample_weight, **options)


@_metric("A share, not a percentage; 0 at best", "0.3274")
def mean_absolute_percentage_error(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"
):
    """Mean absolute error relative to y.

    .. code-block:: text

        sum w |y - f| / max(|y|, eps) / sum w
    """
    options = {"multioutput": multioutput}
    return evaluate_one("mean_absolute_percentage_error", y_true, y_pred, sample_weight, **options)


@_metric("0 at best", "0.0286", " All values > -1.")
def mean_squared_log_error(y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"):
    """Mean squared error of logarithms.

    .. code-block:: text

        sum w (log(1 + y) - log(1 + f))^2 / sum w
    """
    options = {"multioutput": multioutput}
    return evaluate_one("mean_squared_log_error", y_true, y_pred, sample_weight, **options)


@_metric("0 at best", "0.1692", " All values > -1.")
def root_mean_squared_log_error(
    y_true, y_pred, *, sample_weight=None, multioutput="uniform_average"
):
    """Root of the mean squared error of logarithms.

    .. code-block:: text

        sqrt(sum w (log(1 + y) - log(1 + f))^2 / sum w)
    """
    options = {"multioutput": multioutput}
    return evaluate_one("root_mean_squared_log_error", y_true, y_pred, sample_weight, **options)


@_metric("In units of y; 0 at best", "0.25")
def mean_pinball_loss(
    y_true, y_pred, *, sample_weight=None, alpha=0.5, multioutput="uniform_average"
):
    """Loss of a quantile regression at level a.

    .. code-block:: text

        sum w max(a (y - f), (a - 1) (y - f)) / sum w
    """
    options = {"alpha": alpha, "multioutput": multioutput}
    return evaluate_one("mean_pinball_loss", y_true, y_pred, sample_weight, **options)


@_metric("In units of y; 0 at best", "1.0")
def max_error(y_true, y_pred):
    """Largest absolute error.

    .. code-block:: text

        max |y - f|
    """
    return evaluate_one("max_error", y_true, y_pred)


# ---------------------------------------------------------------- deviances


@_metric("0 at best", "0.375")
def mean_tweedie_deviance(y_true, y_pred, *, sample_weight=None, power=0):
    """Mean deviance of a Tweedie model of power p.

    .. code-block:: text

        sum w d_p(y, f) / sum w
    """
    return evaluate_one("mean_tweedie_deviance", y_true, y_pred, sample_weight, power=power)


@_metric("0 at best", "0.1328", " y_true >= 0 and y_pred > 0.")
def mean_poisson_deviance(y_true, y_pred, *, sample_weight=None):
    """Mean deviance of a Poisson model.

    .. code-block:: text

        2 sum w (y log(y / f) - y + f) / sum w
    """
    return evaluate_one("mean_poisson_deviance", y_true, y_pred, sample_weight)


@_metric("0 at best", "0.1097", " All values > 0.")
def mean_gamma_deviance(y_true, y_pred, *, sample_weight=None):
    """Mean deviance of a gamma model.

    .. code-block:: text

        2 sum w (log(f / y) + y / f - 1) / sum w
    """
    return evaluate_one("mean_gamma_deviance", y_true, y_pred, sample_weight)


@_metric("At most 1", "0.9353", raises="\nZeroDivisionError\n    If y_true is constant.")
def d2_tweedie_score(y_true, y_pred, *, sample_weight=None, power=0):
    """Share of the Tweedie deviance that is explained.

    .. code-block:: text

        1 - dev(y, f) / dev(y, mean)
    """
    return evaluate_one("d2_tweedie_score", y_true, y_pred, sample_weight, power=power)
