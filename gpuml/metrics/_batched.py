"""Regression metrics of many models at once: y_true (n, t), y_pred (C, n, t), results (C,).

All reductions are in float64, where the predictions are. Each metric is a row of `METRICS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuml._arrays import Array, as_array, device_of, is_array, move, namespace, place_of
from gpuml.metrics.residuals import ResidualMoments, residual_moments

AVERAGES = ("raw_values", "uniform_average")
FRACTION_AVERAGES = (*AVERAGES, "variance_weighted")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    errors : callable ``(y, pred, weight, options) -> (..., t)``, or None
        Error per target, averaged over targets as `multioutput` says.
    fraction : callable ``(y, pred, weight, options) -> (numerator, denominator)``, or None
        Instead of errors: the score is 1 - numerator / denominator per target.
    errors_of_moments, fraction_of_moments : callables of a ResidualMoments, or None
        The same from sums alone; where given, predictions are reduced to those sums too.
    finish : callable, optional
        Applied to the result per target.
    options : dict
        Names and defaults of what scikit-learn's function takes beside y and weights.
    domain : callable ``(y, pred, options) -> None``, optional
        Raises ValueError for values that the metric is not defined for.
    single_target : bool
        Whether more than one target is an error.
    """

    errors: Callable[..., Array] | None = None
    fraction: Callable[..., tuple[Array, Array]] | None = None
    errors_of_moments: Callable[[ResidualMoments], Array] | None = None
    fraction_of_moments: Callable[[ResidualMoments], tuple[Array, Array]] | None = None
    finish: Callable[[Array], Array] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    domain: Callable[..., None] | None = None
    single_target: bool = False

    @property
    def uses_moments(self) -> bool:
        """Whether sums of residuals are all that the metric needs."""
        return self.errors_of_moments is not None or self.fraction_of_moments is not None


def evaluate(
    name: str,
    y_true: Array,
    y_pred: Array,
    weight: Array | None,
    options: Mapping[str, Any],
) -> Array:
    """A metric of predictions (C, n, t): (C,), or (C, t) for raw values."""
    metric = METRICS[name]
    options = {**metric.options, **options}
    y_true, y_pred = _same_dtype(y_true, y_pred)
    if metric.single_target and y_true.shape[-1] > 1:
        raise ValueError(f"Multioutput not supported in {name}")
    if metric.domain is not None:
        metric.domain(y_true, y_pred, options)
    if metric.uses_moments:
        return evaluate_moments(name, residual_moments(y_true, y_pred, weight), options)
    if metric.fraction is not None:
        pair = metric.fraction(y_true, y_pred, weight, options)
        return _explained(*pair, options, y_true.shape[0])
    return _average_targets(metric, metric.errors(y_true, y_pred, weight, options), options)


def evaluate_moments(name: str, moments: ResidualMoments, options: Mapping[str, Any]) -> Array:
    """A metric that `uses_moments`, of sums with leading axes (...): (...), or (..., t)."""
    metric = METRICS[name]
    options = {**metric.options, **options}
    if metric.fraction_of_moments is not None:
        return _explained(*metric.fraction_of_moments(moments), options, moments.n_rows)
    return _average_targets(metric, metric.errors_of_moments(moments), options)


def weighted_mean(values: Array, weight: Array | None) -> Array:
    """Mean over rows, the last axis but one."""
    xp = namespace(values)
    if weight is None:
        return xp.mean(values, axis=-2)
    w = xp.astype(weight, xp.float64)
    return xp.sum(values * w[:, None], axis=-2) / xp.sum(w)


def weighted_quantile(values: Array, weight: Array | None, level: float) -> Array:
    """Quantile over rows of (..., n, t), the mean of two neighbours where it falls between them."""
    xp = namespace(values)
    columns = xp.matrix_transpose(values)  # (..., t, n)
    order = xp.argsort(columns, axis=-1)
    ordered = xp.take_along_axis(columns, order, axis=-1)
    if weight is None:
        weight = xp.ones((values.shape[-2],), dtype=xp.float64, device=device_of(values))
    weights = xp.broadcast_to(xp.astype(weight, xp.float64), columns.shape)
    cumulated = xp.cumulative_sum(xp.take_along_axis(weights, order, axis=-1), axis=-1)
    target = level * cumulated[..., -1:]
    # At level 0 the first row that weighs anything counts.
    target = xp.where(target > 0, target, xp.full_like(target, 5e-324))
    last = columns.shape[-1] - 1
    here = _count(cumulated < target, xp)
    here = xp.where(here > last, xp.full_like(here, last), here)
    mass = xp.take_along_axis(cumulated, here, axis=-1)
    after = _count(cumulated <= mass, xp)
    after = xp.where(after > last, here, after)
    lower = xp.take_along_axis(ordered, here, axis=-1)
    upper = xp.take_along_axis(ordered, after, axis=-1)
    inside = mass - target > xp.finfo(xp.float64).eps
    return xp.where(inside, lower, (lower + upper) / 2)[..., 0]


def _count(mask, xp):
    return xp.sum(xp.astype(mask, xp.int64), axis=-1, keepdims=True)


def _same_dtype(y_true, y_pred):
    xp = namespace(y_pred)
    return xp.astype(y_true, xp.float64), xp.astype(y_pred, xp.float64)


def _average_targets(metric, errors, options):
    xp = namespace(errors)
    if metric.finish is not None:
        errors = metric.finish(errors, xp)
    multioutput = options.get("multioutput", "uniform_average")
    if isinstance(multioutput, str):
        return errors if multioutput == "raw_values" else xp.mean(errors, axis=-1)
    return _custom_average(errors, multioutput, xp)


def _custom_average(values, weights, xp):
    weights = as_array(weights)
    weights = weights if is_array(weights) else np.asarray(weights, dtype=float)
    w = xp.astype(move(weights, place_of(values)), xp.float64)
    return xp.sum(values * w, axis=-1) / xp.sum(w)


def _explained(numerator, denominator, options, n_rows):
    """1 - numerator / denominator per target, then the average; nan for fewer than two rows."""
    xp = namespace(numerator)
    denominator = xp.broadcast_to(denominator, numerator.shape)
    nonzero = denominator != 0
    safe = xp.where(nonzero, denominator, xp.ones_like(denominator))
    scores = 1 - numerator / safe
    if options.get("force_finite", True):
        otherwise = xp.astype(numerator == 0, xp.float64)  # perfect: 1, else 0
        scores = xp.where(nonzero, scores, otherwise)
    else:
        bad = xp.where(numerator == 0, xp.full_like(scores, np.nan), xp.full_like(scores, -np.inf))
        scores = xp.where(nonzero, scores, bad)
    n_rows = np.asarray(n_rows)
    if (n_rows < 2).any():
        few = xp.asarray(n_rows < 2, device=device_of(scores))
        few = few[..., None] if few.ndim else few
        scores = xp.where(few, xp.full_like(scores, np.nan), scores)
    multioutput = options.get("multioutput", "uniform_average")
    if not isinstance(multioutput, str):
        return _custom_average(scores, multioutput, xp)
    if multioutput == "raw_values":
        return scores
    if multioutput == "variance_weighted":
        total = xp.sum(denominator, axis=-1)
        weighted = xp.sum(scores * denominator, axis=-1)
        plain = xp.mean(scores, axis=-1)
        return xp.where(total != 0, weighted / xp.where(total != 0, total, 1.0), plain)
    return xp.mean(scores, axis=-1)


# ------------------------------------------------------------- the metrics


def _per_row(function):
    def errors(y, pred, weight, options):
        return weighted_mean(function(y, pred, options, namespace(pred)), weight)

    return errors


def _mse_of_moments(m):
    xp = namespace(m.squared)
    return m.squared / _last_axis(m.weight, xp)


def _last_axis(weight, xp):
    return weight[..., None] if getattr(weight, "ndim", 0) else weight


def _r2_of_moments(m):
    return m.squared, m.target


def _variance_of_moments(m):
    xp = namespace(m.squared)
    return m.squared - m.residual**2 / _last_axis(m.weight, xp), m.target


def _pinball(y, pred, options, xp):
    diff = y - pred
    alpha = options["alpha"]
    return xp.where(diff >= 0, alpha * diff, (alpha - 1) * diff)


def _percentage(y, pred, options, xp):
    tiny = xp.finfo(xp.float64).eps
    size = xp.abs(y)
    return xp.abs(y - pred) / xp.where(size > tiny, size, xp.full_like(size, tiny))


def _squared_log(y, pred, options, xp):
    return (xp.log1p(y) - xp.log1p(pred)) ** 2


def _log_domain(y, pred, options):
    xp = namespace(pred)
    if bool(xp.any(y <= -1)) or bool(xp.any(pred <= -1)):
        raise ValueError(
            "Mean Squared Logarithmic Error cannot be used when targets contain values less than "
            "or equal to -1."
        )


def _median_error(y, pred, weight, options):
    return weighted_quantile(namespace(pred).abs(y - pred), weight, 0.5)


def _largest_error(y, pred, weight, options):
    xp = namespace(pred)
    return xp.max(xp.abs(y - pred), axis=-2)


def _pinball_fraction(y, pred, weight, options):
    xp = namespace(pred)
    quantile = weighted_quantile(y, weight, options["alpha"])
    numerator = weighted_mean(_pinball(y, pred, options, xp), weight)
    return numerator, weighted_mean(_pinball(y, quantile, options, xp), weight)


def _tweedie_deviance(y, pred, options, xp):
    p = options["power"]
    if p == 0:
        return (y - pred) ** 2
    if p == 1:
        positive = y > 0
        ratio = xp.where(positive, y, xp.ones_like(y)) / pred
        return 2 * (xp.where(positive, y * xp.log(ratio), xp.zeros_like(ratio)) - y + pred)
    if p == 2:
        return 2 * (xp.log(pred / y) + y / pred - 1)
    base = xp.where(y > 0, y, xp.zeros_like(y)) if p < 0 else y
    return 2 * (
        base ** (2 - p) / ((1 - p) * (2 - p))
        - y * pred ** (1 - p) / (1 - p)
        + pred ** (2 - p) / (2 - p)
    )


def _tweedie_domain(y, pred, options):
    xp, power = namespace(pred), options["power"]
    message = f"Mean Tweedie deviance error with power={power} can only be used on "
    bad_pred = power != 0 and bool(xp.any(pred <= 0))
    if power < 0:
        needs, bad = "strictly positive y_pred.", bad_pred
    elif power < 1:
        if power != 0:
            raise ValueError(f"power must be 0, negative, or at least 1, got {power}.")
        return
    elif power < 2:
        needs = "non-negative y and strictly positive y_pred."
        bad = bad_pred or bool(xp.any(y < 0))
    else:
        needs, bad = "strictly positive y and y_pred.", bad_pred or bool(xp.any(y <= 0))
    if bad:
        raise ValueError(message + needs)


def _tweedie_fraction(y, pred, weight, options):
    xp = namespace(pred)
    mean = weighted_mean(y, weight)
    numerator = weighted_mean(_tweedie_deviance(y, pred, options, xp), weight)
    return numerator, weighted_mean(_tweedie_deviance(y, mean, options, xp), weight)


def _root(errors, xp):
    return xp.sqrt(errors)


_AVERAGE = {"multioutput": "uniform_average"}
_FINITE = {**_AVERAGE, "force_finite": True}
_TWEEDIE = {"errors": _per_row(_tweedie_deviance), "domain": _tweedie_domain, "single_target": True}

METRICS: dict[str, Metric] = {
    "r2_score": Metric(fraction_of_moments=_r2_of_moments, options=_FINITE),
    "explained_variance_score": Metric(fraction_of_moments=_variance_of_moments, options=_FINITE),
    "mean_squared_error": Metric(errors_of_moments=_mse_of_moments, options=_AVERAGE),
    "root_mean_squared_error": Metric(
        errors_of_moments=_mse_of_moments, finish=_root, options=_AVERAGE
    ),
    "mean_absolute_error": Metric(
        errors=_per_row(lambda y, pred, options, xp: xp.abs(y - pred)), options=_AVERAGE
    ),
    "median_absolute_error": Metric(errors=_median_error, options=_AVERAGE),
    "mean_absolute_percentage_error": Metric(errors=_per_row(_percentage), options=_AVERAGE),
    "mean_squared_log_error": Metric(
        errors=_per_row(_squared_log), domain=_log_domain, options=_AVERAGE
    ),
    "root_mean_squared_log_error": Metric(
        errors=_per_row(_squared_log), domain=_log_domain, finish=_root, options=_AVERAGE
    ),
    "mean_pinball_loss": Metric(errors=_per_row(_pinball), options={**_AVERAGE, "alpha": 0.5}),
    "max_error": Metric(errors=_largest_error, single_target=True),
    "mean_tweedie_deviance": Metric(**_TWEEDIE, options={"power": 0}),
    "mean_poisson_deviance": Metric(**_TWEEDIE, options={"power": 1}),
    "mean_gamma_deviance": Metric(**_TWEEDIE, options={"power": 2}),
    "d2_tweedie_score": Metric(
        fraction=_tweedie_fraction,
        domain=_tweedie_domain,
        single_target=True,
        options={"power": 0, "force_finite": False},
    ),
    "d2_pinball_score": Metric(fraction=_pinball_fraction, options={**_AVERAGE, "alpha": 0.5}),
    "d2_absolute_error_score": Metric(
        fraction=_pinball_fraction, options={**_AVERAGE, "alpha": 0.5}
    ),
}
