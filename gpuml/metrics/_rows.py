"""Weighted means and quantiles over rows, the last axis but one."""

import math
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy
from gpuml.metrics.residuals import sum_rows

EPS = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).smallest_normal)


def weighted_mean(values: Array, weight: Array | None, xp: Any) -> Array:
    """Means over rows of float64 values (..., n, t), with weights (n,) or None: (..., t)."""
    if weight is None:
        return sum_rows(values, None, xp) / values.shape[-2]
    return sum_rows(values, weight, xp) / xp.sum(xp.astype(weight, xp.float64, copy=False))


def weighted_quantile(values: Array, weight: Array | None, level: float, xp: Any) -> Array:
    """Quantiles over rows of float64 values (..., n, t), with weights (n,) or None: (..., t).

    The smallest value at which the sum of weights reaches ``level`` of the total; where it reaches
    that exactly, the mean of this value and the next one that weighs anything (Hyndman and Fan,
    American Statistician 50 (1996), definition 2). Values with nan have quantile nan.
    """
    by_column = xp.matrix_transpose(values)  # (..., t, n)
    if weight is None:
        found = _quantile(by_column, level, xp)
    else:
        found = _weighted_quantile(by_column, weight, level, xp)
    return xp.where(xp.any(xp.isnan(by_column), axis=-1), float("nan"), found)


def _wanted_share(level: float) -> float:
    # By way of per cent: rounding as scikit-learn does decides where a level is met exactly.
    return level * 100 / 100


def _quantile(by_column, level, xp):
    """As below with weights 1, for which the sums of weights are known without a sort."""
    n_rows = by_column.shape[-1]
    wanted = _wanted_share(level) * n_rows
    reached = min(max(math.ceil(wanted), 1), n_rows)
    here = reached - 1
    after = here if reached - wanted > EPS else min(here + 1, n_rows - 1)
    # A partition needs no full sort; the array standard has none.
    if is_numpy(by_column):
        ordered = np.partition(by_column, (here, after), axis=-1)
    else:
        ordered = xp.sort(by_column, axis=-1)
    return (ordered[..., here] + ordered[..., after]) / 2


def _weighted_quantile(by_column, weight, level, xp):
    order = xp.argsort(by_column, axis=-1)
    ordered = xp.take_along_axis(by_column, order, axis=-1)
    cumulated = xp.cumulative_sum(_weights_in_order(weight, order, xp), axis=-1)
    # At level 0 the first row that weighs anything counts.
    wanted = _at_least(_wanted_share(level) * cumulated[..., -1:], SMALLEST, xp)
    last = by_column.shape[-1] - 1
    here = _count(cumulated < wanted, xp)
    here = xp.where(here > last, last, here)
    reached = xp.take_along_axis(cumulated, here, axis=-1)
    after = _count(cumulated <= reached, xp)
    after = xp.where(after > last, here, after)
    lower = xp.take_along_axis(ordered, here, axis=-1)
    upper = xp.take_along_axis(ordered, after, axis=-1)
    return xp.where(reached - wanted > EPS, lower, (lower + upper) / 2)[..., 0]


def _weights_in_order(weight, order, xp):
    weight = xp.astype(weight, xp.float64, copy=False)
    return xp.reshape(xp.take(weight, xp.reshape(order, (-1,)), axis=0), order.shape)


def _at_least(x, smallest, xp):
    return xp.where(x > smallest, x, smallest)


def _count(mask, xp):
    return xp.sum(xp.astype(mask, xp.int64), axis=-1, keepdims=True)
