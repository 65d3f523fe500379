"""Regression metrics of many models at once: y_true (n, t), y_pred (C, n, t), results (C,).

All reductions are in float64, where the predictions are. Each metric is a row of `METRICS`.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from gpuml._arrays import Array, device_of, namespace
from gpuml.metrics._outputs import average_targets, fraction_explained, is_raw, spread
from gpuml.metrics._rows import EPS, weighted_mean, weighted_quantile
from gpuml.metrics.residuals import ResidualMoments, columns, residual_moments

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    kernel : callable ``(y, pred, weight, options, xp)``, or ``(moments, xp)``
        Error per target (..., t); or a pair of numerator and denominator per target, of which the
        score is 1 - numerator / denominator.
    uses_moments : bool
        Whether the kernel takes a ResidualMoments alone; predictions are reduced to it too.
    finish : callable ``(values, xp) -> values``, optional
        Applied to the error per target.
    options : dict
        Names and defaults of what the public function takes beside y and weights.
    fixed : dict
        Options that the metric has chosen itself.
    domain : callable ``(y, pred, options, xp) -> None``, optional
        Raises ValueError for values that the metric is not defined for.
    single_target : bool
        Whether more than one target is an error.
    needs_two_rows : str
        What is nan, with a warning, where there is one row; "" if nothing is.
    is_mean : bool
        Whether the error is a weighted mean over rows.
    """

    kernel: Callable[..., Array | Pair]
    uses_moments: bool = False
    finish: Callable[..., Array] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    domain: Callable[..., None] | None = None
    single_target: bool = False
    needs_two_rows: str = ""
    is_mean: bool = False


def evaluate(
    name: str,
    y_true: Array,
    y_pred: Array,
    weight: Array | None,
    options: Mapping[str, Any],
) -> Array:
    """A metric of predictions: float64 (C,), or (C, t) for raw values, where `y_pred` is.

    Parameters
    ----------
    name : str
        A key of `METRICS`.
    y_true, y_pred : arrays of real numbers (n,) or (n, t), and (C, n) or (C, n, t), in one place
        Not checked for nan and inf: a model that predicts them gets a score that is not finite.
    weight : array (n,) or None
        `max_error` has no use for it.
    options : dict
        As the keyword arguments of the public function.

    Raises
    ------
    ValueError
        Values that the metric is not defined for, in y_true or any of the predictions.
    ZeroDivisionError
        `d2_tweedie_score` of a constant y_true.
    """
    metric = METRICS[name]
    xp = namespace(y_pred)
    y, pred = (xp.astype(a, xp.float64, copy=False) for a in columns(y_true, y_pred))
    options = {**metric.options, **metric.fixed, **options}
    if metric.single_target and y.shape[-1] > 1:
        raise ValueError(f"Multioutput not supported in {name}")
    if metric.domain is not None:
        metric.domain(y, pred, options, xp)
    if name == "explained_variance_score":
        # The score is the same for shifted predictions, and exact where the mean residual is 0.
        pred = pred + weighted_mean(y - pred, weight, xp)[..., None, :]
    if metric.uses_moments:
        return evaluate_moments(name, residual_moments(y, pred, weight), options)
    return _of_targets(metric, metric.kernel(y, pred, weight, options, xp), options, y.shape[0])


def evaluate_moments(name: str, moments: ResidualMoments, options: Mapping[str, Any]) -> Array:
    """A metric that `uses_moments`, of sums with leading axes (...): (...), or (..., t)."""
    metric = METRICS[name]
    options = {**metric.options, **metric.fixed, **options}
    # A part whose weights are all zero has score nan.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = metric.kernel(moments, namespace(moments.squared))
        return _of_targets(metric, found, options, moments.n_rows)


def _of_targets(metric, found, options, n_rows):
    """The metric of what its kernel has found for each target."""
    if not isinstance(found, tuple):
        errors = found if metric.finish is None else metric.finish(found, namespace(found))
        return average_targets(errors, options.get("multioutput"))
    numerator, denominator = found
    fractions = fraction_explained(
        numerator, denominator, force_finite=options.get("force_finite", True)
    )
    scores = average_targets(fractions, options.get("multioutput"), denominator)
    too_few = np.asarray(n_rows) < 2
    if not (metric.needs_two_rows and too_few.any()):
        return scores
    warnings.warn(
        f"{metric.needs_two_rows} score is not well-defined with less than two samples.",
        UndefinedMetricWarning,
        stacklevel=4,
    )
    xp = namespace(scores)
    too_few = xp.asarray(too_few, device=device_of(scores))
    if is_raw(options):
        too_few = too_few[..., None]
    return xp.where(too_few, xp.full_like(scores, float("nan")), scores)


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


def _deviance(y, pred, options, xp):
    p = options["power"]
    if p == 0:
        return (y - pred) ** 2
    if p == 1:
        ratio = xp.where(y > 0, y, xp.ones_like(y)) / pred
        return 2 * (y * xp.log(ratio) - y + pred)  # 0 log 0 = 0
    if p == 2:
        return 2 * (xp.log(pred / y) + y / pred - 1)
    positive = xp.where(y > 0, y, xp.zeros_like(y))
    return 2 * (
        positive ** (2 - p) / ((1 - p) * (2 - p))
        - y * pred ** (1 - p) / (1 - p)
        + pred ** (2 - p) / (2 - p)
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
    if y.shape[0] > 1 and bool(xp.any(denominator == 0)):
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
        if bool(xp.any(y <= -1)) or bool(xp.any(pred <= -1)):
            raise ValueError(
                f"{metric} cannot be used when targets contain values less than or equal to -1; "
                "y_true or y_pred does."
            )

    return check


def _deviance_domain(y, pred, options, xp):
    power = options["power"]
    if power == 0:
        return
    bad = bool(xp.any(pred <= 0))
    if power < 0:
        needed = "strictly positive y_pred."
    elif power < 2:
        needed = "non-negative y and strictly positive y_pred."
        bad = bad or bool(xp.any(y < 0))
    else:
        needed = "strictly positive y and y_pred."
        bad = bad or bool(xp.any(y <= 0))
    if bad:
        raise ValueError(
            f"Mean Tweedie deviance error with power={power} can only be used on {needed}"
        )


# ---------------------------------------------------------------- the table

_AVERAGE = {"multioutput": "uniform_average"}
_FINITE = {**_AVERAGE, "force_finite": True}
_QUANTILE = {**_AVERAGE, "alpha": 0.5}


def _of_errors(per_row, options=_AVERAGE, **attributes):
    """A metric whose error is a weighted mean over rows."""

    def kernel(y, pred, weight, options, xp):
        return weighted_mean(per_row(y, pred, options, xp), weight, xp)

    return Metric(kernel, options=options, is_mean=True, **attributes)


def _of_deviance(**attributes):
    return _of_errors(_deviance, domain=_deviance_domain, single_target=True, **attributes)


METRICS: dict[str, Metric] = {
    "r2_score": Metric(_squares, uses_moments=True, options=_FINITE, needs_two_rows="R^2"),
    "explained_variance_score": Metric(_variances, uses_moments=True, options=_FINITE),
    "mean_squared_error": Metric(_mean_square, uses_moments=True, options=_AVERAGE, is_mean=True),
    "root_mean_squared_error": Metric(
        _mean_square, uses_moments=True, finish=_root, options=_AVERAGE
    ),
    "mean_absolute_error": _of_errors(_absolute),
    "median_absolute_error": Metric(_median_error, options=_AVERAGE),
    "mean_absolute_percentage_error": _of_errors(_percentage),
    "mean_squared_log_error": _of_errors(
        _squared_log, domain=_log_domain("Mean Squared Logarithmic Error")
    ),
    "root_mean_squared_log_error": _of_errors(
        _squared_log, domain=_log_domain("Root Mean Squared Logarithmic Error"), finish=_root
    ),
    "mean_pinball_loss": _of_errors(_pinball, _QUANTILE),
    "max_error": Metric(_largest_error, single_target=True),
    "mean_tweedie_deviance": _of_deviance(options={"power": 0}),
    "mean_poisson_deviance": _of_deviance(options={}, fixed={"power": 1}),
    "mean_gamma_deviance": _of_deviance(options={}, fixed={"power": 2}),
    "d2_tweedie_score": Metric(
        _deviance_fraction,
        domain=_deviance_domain,
        single_target=True,
        options={"power": 0},
        needs_two_rows="D^2",
    ),
    "d2_pinball_score": Metric(_pinball_fraction, options=_QUANTILE, needs_two_rows="D^2"),
    "d2_absolute_error_score": Metric(
        _pinball_fraction, options=_AVERAGE, fixed={"alpha": 0.5}, needs_two_rows="D^2"
    ),
}
