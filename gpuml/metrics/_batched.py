"""Regression metrics of many models at once: y_true (n, t), y_pred (C, n, t), results (C,).

All reductions are in float64, where the predictions are. Each metric is a row of `METRICS`, beside
its public function in `gpuml.metrics.regression`.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from gpuml._arrays import Array, device_of, namespace
from gpuml.metrics._outputs import average_targets, fraction_explained, is_raw
from gpuml.metrics._rows import weighted_mean
from gpuml.metrics.residuals import LazyMoments, ResidualMoments, columns

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
    needs_two_rows: str = ""
    is_mean: bool = False

    @property
    def single_target(self) -> bool:
        """Whether more than one target is an error."""
        return "multioutput" not in self.options


METRICS: dict[str, Metric] = {}
# Options of a metric that equals `score` of a model, also for one row and for constant y.
OF_MODELS = {"of_models": True, "force_finite": False}


def is_of_model(options: Mapping[str, Any]) -> bool:
    """Whether options hold those of `OF_MODELS`."""
    return bool(options.get("of_models"))


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
        return evaluate_moments(name, LazyMoments(y, pred, weight), options)
    return _of_targets(metric, metric.kernel(y, pred, weight, options, xp), options, y.shape[0])


def evaluate_moments(
    name: str, moments: ResidualMoments | LazyMoments, options: Mapping[str, Any]
) -> Array:
    """A metric that `uses_moments`, of sums with leading axes (...): (...), or (..., t)."""
    metric = METRICS[name]
    options = {**metric.options, **metric.fixed, **options}
    # A part whose weights are all zero has score nan.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = metric.kernel(moments, namespace(moments.squared))
        return _of_targets(metric, found, options, moments.n_rows)


def _of_targets(metric, found, options, n_rows):
    """The metric from the kernel's result for each target."""
    if not isinstance(found, tuple):
        errors = found if metric.finish is None else metric.finish(found, namespace(found))
        return average_targets(errors, options.get("multioutput"))
    numerator, denominator = found
    fractions = fraction_explained(
        numerator, denominator, force_finite=options.get("force_finite", True)
    )
    scores = average_targets(fractions, options.get("multioutput"), denominator)
    too_few = np.asarray(n_rows) < 2
    if is_of_model(options) or not (metric.needs_two_rows and too_few.any()):
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
