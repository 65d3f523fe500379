"""Means and variances of columns of rows on a device, where nan means a missing value.

Sums are float64, over rows less a shift close to their mean, so that the mean does not cancel the
digits of the variance [1]_. The shift is the mean of some evenly spaced rows. With m of n rows in
that sample, ``(mean - shift)^2 <= (n / m) variance``: a share m / n of the rows is as far off as
the shift is. The variance then has a relative error of some n / m roundings at most.

References
----------
.. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance:
   analysis and recommendations", The American Statistician 37 (1983).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace, to_host
from gpuml._arrays.ops import constant, zeros
from gpuml.preprocessing._places import row_blocks

SHIFT_ROWS = 4096


@dataclass(frozen=True)
class ColumnMoments:
    """Of each column, NumPy float64 (p,): sum of weights, mean, and sum of ``w (x - mean)^2``.

    The mean is nan, and the squares are 0, where nothing was seen.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return self.squares / self.count

    def merged(self, other: "ColumnMoments") -> "ColumnMoments":
        """Moments of the rows of both."""
        count = self.count + other.count
        share = other.count / np.where(count > 0, count, 1.0)
        # A column without values has no mean, and a share of 0.
        old = np.where(self.count > 0, self.mean, other.mean)
        new = np.where(other.count > 0, other.mean, old)
        between = self.count * share * (new - old) ** 2
        return ColumnMoments(
            count,
            old + share * (new - old),
            self.squares + other.squares + np.where(count > 0, between, 0.0),
        )


def column_moments(X: Array, weight: Array | None) -> ColumnMoments:
    """Moments of the columns of foreign X (n, p): one pass over the rows, rarely two."""
    shift, is_known, has_holes = _sample(X, weight)
    sums = _sum_rows(X, weight, shift, has_holes)
    if not has_holes and np.isnan(sums).any():
        # The sample missed all nan.
        sums = _sum_rows(X, weight, shift, True)
    elif (~is_known & (sums[0] > 0)).any():
        # Of some columns the sample has no value: their shift was 0.
        shift = shift + _mean(sums)
        sums = _sum_rows(X, weight, np.where(np.isfinite(shift), shift, 0.0), has_holes)
    count, offset = sums[0], _mean(sums)
    with np.errstate(invalid="ignore"):
        squares = sums[2] - np.where(count > 0, offset * sums[1], 0.0)
    return ColumnMoments(count, shift + offset, np.maximum(squares, 0.0))


def _mean(sums):
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[1] / sums[0]


def _sample(X, weight):
    """Mean of some rows (p,), whether there is one, and whether a value is nan; in CPU memory."""
    xp = namespace(X)
    step = max(1, X.shape[0] // SHIFT_ROWS)
    rows = xp.astype(X[::step, ...], xp.float64)
    w = None if weight is None else weight[::step]
    sums = to_host(_sums(rows, _float64_weight(rows, w, xp), True, xp))
    n_sampled = float(rows.shape[0]) if w is None else float(xp.sum(xp.astype(w, xp.float64)))
    is_known = sums[0] > 0
    shift = np.where(is_known, _mean(sums), 0.0)
    has_holes = bool((sums[0] < n_sampled * (1 - 1e-9)).any())
    return np.where(np.isfinite(shift), shift, 0.0), is_known, has_holes


def _sum_rows(X, weight, shift, has_holes):
    """Sums of w, ``w (x - shift)`` and ``w (x - shift)^2`` over values that are there: (3, p)."""
    xp = namespace(X)
    p = X.shape[1]
    total = zeros((3, p), like=X, xp=xp)
    shift = constant(shift, like=X, xp=xp)
    for rows in row_blocks(X, 24 * p):
        w = None if weight is None else weight[rows]
        centred = X[rows, ...] - shift  # float64, whatever X is
        total = total + _sums(centred, _float64_weight(centred, w, xp), has_holes, xp)
    return to_host(total)


def _float64_weight(rows: Array, weight: Array | None, xp: Any) -> Array:
    if weight is None:
        return xp.ones((rows.shape[0],), dtype=xp.float64, device=device_of(rows))
    return xp.astype(weight, xp.float64)


def _sums(rows, weight, has_holes, xp):
    """The three sums of float64 rows, by products with the weights."""
    if has_holes:
        hole = xp.isnan(rows)
        count = weight @ xp.astype(~hole, xp.float64)
        rows = xp.where(hole, xp.zeros_like(rows), rows)
    else:
        count = xp.broadcast_to(xp.sum(weight), (rows.shape[1],))
    return xp.stack([count, weight @ rows, weight @ (rows * rows)])
