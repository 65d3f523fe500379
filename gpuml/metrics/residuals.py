"""Sums of residuals that r2, explained variance and mean squared errors are functions of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace
from gpuml._arrays.ops import along_rows


@dataclass(frozen=True)
class ResidualMoments:
    """Weighted sums over rows of residuals r = y_true - y_pred, with leading axes (...).

    Attributes
    ----------
    weight : array, broadcasts to (...)
        sum w
    residual, squared : arrays (..., t)
        sum w r and sum w r^2
    target : array, broadcasts to (..., t)
        sum w (y - mean(y))^2; exactly 0 for a constant y, or scores of it mean nothing
    n_rows : int or NumPy array that broadcasts to (...)
        Number of rows, whatever their weights.
    """

    weight: Array
    residual: Array
    squared: Array
    target: Array
    n_rows: Any


class LazyMoments:
    """The sums of `ResidualMoments` of y_true (n,) or (n, t) less y_pred (C, n) or (C, n, t).

    Each is computed in float64 when a metric first reads it: most metrics read two of them.

    Parameters
    ----------
    y_true, y_pred : arrays of real numbers, in one place
        A missing last axis is an axis of length 1.
    weight : array (n,) or None
        None weighs every row 1.
    """

    def __init__(self, y_true: Array, y_pred: Array, weight: Array | None) -> None:
        self._xp = xp = namespace(y_pred)
        y, pred = (xp.astype(a, xp.float64, copy=False) for a in columns(y_true, y_pred))
        self._y, self._residual, self._weight = y, y - pred, weight  # (n, t), (C, n, t), (n,)
        self.n_rows = int(y.shape[0])

    @cached_property
    def weight(self) -> Array:
        return sum_weights(self._y, self._weight, self._xp)

    @cached_property
    def residual(self) -> Array:
        return sum_rows(self._residual, self._weight, self._xp)

    @cached_property
    def squared(self) -> Array:
        return _sum_squares(self._residual, self._weight, self._xp)

    @cached_property
    def target(self) -> Array:
        return target_sums(self._y, self._weight, self._xp)[1]


def residual_moments(y_true: Array, y_pred: Array, weight: Array | None) -> ResidualMoments:
    """All sums of `LazyMoments`, whose arguments these are."""
    found = LazyMoments(y_true, y_pred, weight)
    return ResidualMoments(found.weight, found.residual, found.squared, found.target, found.n_rows)


def columns(y_true: Array, y_pred: Array) -> tuple[Array, Array]:
    """Targets (n, t) and predictions (C, n, t) of what may lack the last axis."""
    y_true = y_true[:, None] if y_true.ndim == 1 else y_true
    return y_true, y_pred[..., None] if y_pred.ndim == 2 else y_pred


def sum_rows(values: Array, weight: Array | None, xp: Any) -> Array:
    """Weighted sums over the rows of float64 values (..., n, t)."""
    if weight is not None:
        values = values * xp.astype(weight, xp.float64, copy=False)[:, None]
    if values.shape[-1] == 1:
        return along_rows(xp.sum, values[..., 0], xp)[..., None]
    return xp.sum(values, axis=-2)


def _sum_squares(values, weight, xp):
    weighted = values
    if weight is not None:
        weighted = values * xp.astype(weight, xp.float64, copy=False)[:, None]
    if is_numpy(values):
        # By no threads of BLAS: of ten thousand rows they wait for each other longer than they add.
        return np.einsum("...it,...it->...t", values, weighted)
    return xp.vecdot(values, weighted, axis=-2)


def sum_weights(y: Array, weight: Array | None, xp: Any) -> Array:
    """Sum of weights (); each row of y weighs 1 if they are None."""
    if weight is None:
        return xp.asarray(float(y.shape[0]), dtype=xp.float64, device=device_of(y))
    return xp.sum(xp.astype(weight, xp.float64, copy=False))


def target_sums(y: Array, weight: Array | None, xp: Any) -> tuple[Array, Array]:
    """Sum of weights (), and sum w (y - mean)^2 of float64 targets (n, t), shape (t,)."""
    total = sum_weights(y, weight, xp)
    # Less one of the rows that count, a constant target is exactly 0; its rounded mean may not be
    # the constant.
    y = y - _counting_row(y, weight, xp)
    mean = sum_rows(y, weight, xp) / total
    return total, _sum_squares(y - mean, weight, xp)


def _counting_row(y, weight, xp):
    if weight is None:
        return y[:1, :]
    first = xp.argmax(xp.astype(weight != 0, xp.int32))
    return xp.take(y, xp.reshape(first, (1,)), axis=0)
