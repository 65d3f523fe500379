"""Sums of residuals that r2, explained variance and mean squared errors are functions of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace


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
        sum w (y - mean(y))^2
    n_rows : int or host array that broadcasts to (...)
        Number of rows, whatever their weights.
    """

    weight: Array
    residual: Array
    squared: Array
    target: Array
    n_rows: Any


def residual_moments(y_true: Array, y_pred: Array, weight: Array | None) -> ResidualMoments:
    """Sums in float64 of y_true (n, t) less y_pred (C, n, t), with weights (n,) or None."""
    xp = namespace(y_pred)
    y = xp.astype(y_true, xp.float64)
    residual = y - xp.astype(y_pred, xp.float64)
    if weight is None:
        total = xp.asarray(float(y.shape[0]), dtype=xp.float64, device=y.device)
        w = xp.ones_like(y[:, :1])
    else:
        w = xp.astype(weight, xp.float64)[:, None]
        total = xp.sum(w)
    mean = xp.sum(w * y, axis=0) / total
    return ResidualMoments(
        weight=total,
        residual=xp.sum(w * residual, axis=-2),
        squared=xp.sum(w * residual**2, axis=-2),
        target=xp.sum(w * (y - mean) ** 2, axis=0),
        n_rows=np.asarray(y.shape[0]),
    )
