"""Metrics of regression with scikit-learn's names: scores, errors and deviances.

Whatever library and device `y_pred` is of, the rows are reduced there, in float64; one number
comes to CPU memory. An entry of this module is all that a metric is: how it is computed of many
models, and what its page says.
"""

from collections.abc import Callable
from dataclasses import replace
from numbers import Number
from typing import Any

import numpy as np
import sklearn.metrics as sk

from gpuml._arrays import place_of
from gpuml._arrays.gpus import elementwise
from gpuml._arrays.ops import any_true
from gpuml.metrics._batched import METRICS, OF_MODELS, Metric, evaluate, is_of_model
from gpuml.metrics._functions import options_of, public
from gpuml.metrics._input import check_parameters, check_targets
from gpuml.metrics._outputs import is_raw, spread
from gpuml.metrics._rows import EPS, weighted_mean, weighted_quantile

# ---------------------------------------------------------------- errors per row


def _absolute(y, pred, options, xp):
    return xp.abs(y - pred)


def _percentage(y, pred, options, xp):
    size = xp.abs(y)
    return xp.abs(y - pred) / xp.where(size > EPS, size, xp.full_like(size, EPS))


def _squared_log(y, pred, options, xp):
    return (xp.log1p(y) - xp.log1p(pred)) ** 2


def _pinball(y, pred, options, xp):
    residual, alpha = y - pred, options["alpha"]
    return xp.where(residual >= 0, alpha * residual, (alpha - 1) * residual)


# The formulas of `_deviance` as one kernel, for powers p other than 0.
_DEVIANCE = (
    "float64 y, float64 mu, float64 p",
    "float64 d",
    """
    if (p == 1) {
        d = 2 * (y * log((y > 0 ? y : 1) / mu) - y + mu);
    } else if (p == 2) {
        d = 2 * (log(mu / y) + y / mu - 1);
    } else {
        const double positive = y > 0 ? y : 0, power = pow(mu, 2 - p);
        d = 2 * (pow(positive, 2 - p) / ((1 - p) * (2 - p)) - y * (power / mu) / (1 - p)
                 + power / (2 - p));
    }
    """,
    "gpuml_tweedie_deviance",
)


def _deviance(y, pred, options, xp):
    p = options["power"]
    if p == 0:
        return (y - pred) ** 2
    if place_of(pred).kind == "cupy":
        return elementwise(*_DEVIANCE)(y, pred, float(p))
    if p == 1:
        ratio = xp.where(y > 0, y, xp.ones_like(y)) / pred
        return 2 * (y * xp.log(ratio) - y + pred)  # 0 log 0 = 0
    if p == 2:
        return 2 * (xp.log(pred / y) + y / pred - 1)
    positive, power = xp.where(y > 0, y, xp.zeros_like(y)), pred ** (2 - p)
    # One power of predictions: a division gives the other.
    return 2 * (
        positive ** (2 - p) / ((1 - p) * (2 - p)) - y * (power / pred) / (1 - p) + power / (2 - p)
    )


# ---------------------------------------------------------------- what is not a mean of them


def _median_error(y, pred, weight, options, xp):
    return weighted_quantile(xp.abs(y - pred), weight, 0.5, xp)


def _largest_error(y, pred, weight, options, xp):
    return xp.max(xp.abs(y - pred), axis=-2)


def _pinball_fraction(y, pred, weight, options, xp):
    quantile = weighted_quantile(y, weight, options["alpha"], xp)
    return tuple(
        weighted_mean(_pinball(y, guess, options, xp), weight, xp) for guess in (pred, quantile)
    )


def _deviance_fraction(y, pred, weight, options, xp):
    mean = weighted_mean(y, weight, xp)
    numerator, denominator = (
        weighted_mean(_deviance(y, guess, options, xp), weight, xp) for guess in (pred, mean)
    )
    if not is_of_model(options) and y.shape[0] > 1 and any_true(denominator == 0, xp):
        raise ZeroDivisionError(
            "d2_tweedie_score is not defined for a constant y_true: its deviance is zero."
        )
    return numerator, denominator


def _mean_square(moments, xp):
    return moments.squared / moments.weight[..., None]


def _squares(moments, xp):
    return moments.squared, moments.target


def _variances(moments, xp):
    return spread(moments.squared, moments.residual, moments.weight, xp), moments.target


def _root(errors, xp):
    return xp.sqrt(errors)


# ---------------------------------------------------------------- domains


def _log_domain(metric):
    def check(y, pred, options, xp):
        if any_true(y <= -1, xp) or any_true(pred <= -1, xp):
            raise ValueError(
                f"{metric} cannot be used when targets contain values less than or equal to -1; "
                "y_true or y_pred does."
            )

    return check


def _deviance_domain(y, pred, options, xp):
    power = options["power"]
    if power == 0:
        return
    bad = any_true(pred <= 0, xp)
    if power < 0:
        needed = "strictly positive y_pred."
    elif power < 2:
        needed = "non-negative y and strictly positive y_pred."
        bad = bad or any_true(y < 0, xp)
    else:
        needed = "strictly positive y and y_pred."
        bad = bad or any_true(y <= 0, xp)
    if bad:
        raise ValueError(
            f"Mean Tweedie deviance error with power={power} can only be used on {needed}"
        )


def _of_errors(per_row, **attributes):
    """A metric whose error is a weighted mean over rows."""

    def kernel(y, pred, weight, options, xp):
        return weighted_mean(per_row(y, pred, options, xp), weight, xp)

    return Metric(kernel, is_mean=True, **attributes)


def _of_deviance(**attributes):
    return _of_errors(_deviance, domain=_deviance_domain, **attributes)


# ---------------------------------------------------------------- public functions

_MULTIOUTPUT = """multioutput : {"raw_values", "uniform_average"} or array-like of shape \
(n_outputs,), default="uniform_average"
    How to average over several targets: not at all, evenly, or with the given weights."""
_FRACTIONS = """multioutput : {"raw_values", "uniform_average", "variance_weighted"}%s \
or array-like of shape (n_outputs,), default="uniform_average"
    How to average over several targets: not at all, evenly, weighted by their variances, or
    with the given weights.%s"""
_OPTIONS = {
    "force_finite": """force_finite : bool, default=True
    Whether to return 1 (for perfect predictions) or 0 instead of nan or -inf, if y is
    constant.""",
    "alpha": """alpha : float, default=0.5
    Level of the quantile, from 0 to 1.""",
    "power": """power : float, default=0
    Power p of the variance: 0 is the normal distribution, 1 Poisson, 2 gamma, 3 inverse Gaussian.
    Values between 0 and 1 are invalid. ``p < 0`` needs y_pred > 0; ``1 <= p < 2`` needs y_true >= 0
    and y_pred > 0; ``p >= 2`` needs both > 0.""",
}


def _evaluate(name, y_true, y_pred, sample_weight=None, **options):
    """A metric as a batch of one: a float, or an array (t,) for raw values."""
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight}
    check_parameters(name, {**METRICS[name].options, **given, **options})
    y_true, y_pred, weight = check_targets(y_true, y_pred, sample_weight)
    result = evaluate(name, y_true, y_pred[None, ...], weight, options)
    if not is_raw(options):
        return float(result[0])
    # One row has no raw values where the score of one row is undefined, as in scikit-learn.
    undefined = METRICS[name].needs_two_rows and y_true.shape[0] < 2
    return float("nan") if undefined else result[0, ...]


def _metric(
    theirs: Callable[..., Any],
    metric: Metric,
    summary: str,
    formula: str,
    value: str,
    result: str,
    *,
    domain: str = "",
    raises: str = "",
    multioutput: str = _MULTIOUTPUT,
) -> Callable[..., Any]:
    """A metric: how it is computed, the example's value, what comes back."""
    name = theirs.__name__
    metric = METRICS[name] = replace(metric, options=options_of(theirs)[0])
    outputs = "" if metric.single_target else " or (n_samples, n_outputs)"
    returns = f"value : float\n    {result}."
    if not metric.single_target:
        returns = (
            "value : float, or array of shape (n_outputs,) for raw values\n"
            f"    {result}. Raw values are float64, where y_pred is."
        )
    outside = ", or values are outside the metric's domain" if metric.domain is not None else ""
    one_row = (
        "sklearn.exceptions.UndefinedMetricWarning\n    If there is one row; the value is nan."
    )
    return public(
        __name__,
        _evaluate,
        theirs,
        summary,
        formula,
        returns=returns,
        example=f"round({name}([3.0, 0.5, 2.0, 7.0], [2.5, 1.0, 2.0, 8.0]), 4)",
        value=value,
        raises="ValueError\n    If lengths or numbers of targets differ, values are nan or "
        f"infinite, a parameter\n    is out of range{outside}.{raises}",
        warns=one_row if metric.needs_two_rows else "",
        y_pred=f"y_true, y_pred : array-like of shape (n_samples,){outputs}\n"
        "    Correct and predicted targets, in any array library. They are moved to the library "
        f"and\n    device of y_pred.{domain}",
        multioutput=multioutput,
        **_OPTIONS,
    )


# ---------------------------------------------------------------- scores

r2_score = _metric(
    sk.r2_score,
    Metric(_squares, uses_moments=True, needs_two_rows="R^2"),
    "R2, the coefficient of determination.",
    "1 - sum w (y - f)^2 / sum w (y - mean)^2",
    "0.9353",
    "At most 1",
    multioutput=_FRACTIONS % (", None", " None is even."),
)
explained_variance_score = _metric(
    sk.explained_variance_score,
    Metric(_variances, uses_moments=True),
    "Share of the variance of y that the predictions explain.",
    "1 - Var(y - f) / Var(y)",
    "0.9461",
    "At most 1",
    multioutput=_FRACTIONS % ("", ""),
)
d2_pinball_score = _metric(
    sk.d2_pinball_score,
    Metric(_pinball_fraction, needs_two_rows="D^2"),
    "D2 score: share of the pinball loss that the predictions explain.",
    "1 - pinball(y, f) / pinball(y, quantile)",
    "0.7333",
    "At most 1",
)
d2_absolute_error_score = _metric(
    sk.d2_absolute_error_score,
    Metric(_pinball_fraction, fixed={"alpha": 0.5}, needs_two_rows="D^2"),
    "D2 score: share of the absolute error that the predictions explain.",
    "1 - MAE(y, f) / MAE(y, median)",
    "0.7333",
    "At most 1",
)
d2_tweedie_score = _metric(
    sk.d2_tweedie_score,
    Metric(_deviance_fraction, domain=_deviance_domain, needs_two_rows="D^2"),
    "D2 score: share of the Tweedie deviance that the predictions explain.",
    "1 - dev(y, f) / dev(y, mean)",
    "0.9353",
    "At most 1",
    raises="\nZeroDivisionError\n    If y_true is constant.",
)


def deviance_explained(
    y_true: Any, y_pred: Any, sample_weight: Any = None, *, power: float
) -> float:
    """`d2_tweedie_score` as models have it: -inf or nan where y_true is constant, or one row.

    A number as weight is that of each row.
    """
    if isinstance(sample_weight, Number):
        sample_weight = np.full(y_pred.shape[0], sample_weight)
    y_true, y_pred, weight = check_targets(y_true, y_pred, sample_weight)
    options = {"power": power, **OF_MODELS}
    return float(evaluate("d2_tweedie_score", y_true, y_pred[None, ...], weight, options)[0])


# ---------------------------------------------------------------- errors

mean_squared_error = _metric(
    sk.mean_squared_error,
    Metric(_mean_square, uses_moments=True, is_mean=True),
    "Mean squared error.",
    "sum w (y - f)^2 / sum w",
    "0.375",
    "In squared units of y; 0 at best",
)
root_mean_squared_error = _metric(
    sk.root_mean_squared_error,
    Metric(_mean_square, uses_moments=True, finish=_root),
    "Root of the mean squared error.",
    "sqrt(sum w (y - f)^2 / sum w)",
    "0.6124",
    "In units of y; 0 at best",
)
mean_absolute_error = _metric(
    sk.mean_absolute_error,
    _of_errors(_absolute),
    "Mean absolute error.",
    "sum w |y - f| / sum w",
    "0.5",
    "In units of y; 0 at best",
)
median_absolute_error = _metric(
    sk.median_absolute_error,
    Metric(_median_error),
    "Weighted median of absolute errors.",
    "median |y - f|",
    "0.5",
    "In units of y; 0 at best",
)
mean_absolute_percentage_error = _metric(
    sk.mean_absolute_percentage_error,
    _of_errors(_percentage),
    "Mean absolute error relative to y.",
    "sum w |y - f| / max(|y|, eps) / sum w",
    "0.3274",
    "A share, not a percentage; 0 at best",
)
mean_squared_log_error = _metric(
    sk.mean_squared_log_error,
    _of_errors(_squared_log, domain=_log_domain("Mean Squared Logarithmic Error")),
    "Mean squared error of logarithms.",
    "sum w (log(1 + y) - log(1 + f))^2 / sum w",
    "0.0286",
    "0 at best",
    domain=" All values > -1.",
)
root_mean_squared_log_error = _metric(
    sk.root_mean_squared_log_error,
    _of_errors(
        _squared_log, domain=_log_domain("Root Mean Squared Logarithmic Error"), finish=_root
    ),
    "Root of the mean squared error of logarithms.",
    "sqrt(sum w (log(1 + y) - log(1 + f))^2 / sum w)",
    "0.1692",
    "0 at best",
    domain=" All values > -1.",
)
mean_pinball_loss = _metric(
    sk.mean_pinball_loss,
    _of_errors(_pinball),
    "Pinball (quantile) loss at level a.",
    "sum w max(a (y - f), (a - 1) (y - f)) / sum w",
    "0.25",
    "In units of y; 0 at best",
)
max_error = _metric(
    sk.max_error,
    Metric(_largest_error),
    "Largest absolute error.",
    "max |y - f|",
    "1.0",
    "In units of y; 0 at best",
)

# ---------------------------------------------------------------- deviances

mean_tweedie_deviance = _metric(
    sk.mean_tweedie_deviance,
    _of_deviance(),
    "Mean deviance of a Tweedie model of power p.",
    "sum w d_p(y, f) / sum w",
    "0.375",
    "0 at best",
)
mean_poisson_deviance = _metric(
    sk.mean_poisson_deviance,
    _of_deviance(fixed={"power": 1}),
    "Mean deviance of a Poisson model.",
    "2 sum w (y log(y / f) - y + f) / sum w",
    "0.1328",
    "0 at best",
    domain=" y_true >= 0 and y_pred > 0.",
)
mean_gamma_deviance = _metric(
    sk.mean_gamma_deviance,
    _of_deviance(fixed={"power": 2}),
    "Mean deviance of a gamma model.",
    "2 sum w (log(f / y) + y / f - 1) / sum w",
    "0.1097",
    "0 at best",
    domain=" All values > 0.",
)
