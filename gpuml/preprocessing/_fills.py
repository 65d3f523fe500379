"""What missing values of each column are filled with, on the device of the rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, move, namespace, place_of, to_host
from gpuml._arrays.ops import zeros
from gpuml.preprocessing._places import column_chunks, row_blocks


def count_missing(X: Array, is_missing: Callable[[Array], Array]) -> np.ndarray:
    """Number of missing values of each column (p,), in CPU memory."""
    xp = namespace(X)
    total = xp.zeros((X.shape[1],), dtype=xp.int64, device=device_of(X))
    for rows in row_blocks(X, X.shape[1]):
        total = total + xp.sum(xp.astype(is_missing(X[rows, ...]), xp.int64), axis=0)
    return to_host(total)


def column_means(X: Array, is_missing: Callable[[Array], Array], seen: np.ndarray) -> Array:
    """Means (p,) of what is there, float64."""
    xp = namespace(X)
    total = zeros((X.shape[1],), like=X, xp=xp)
    for rows in row_blocks(X, 9 * X.shape[1]):
        block = X[rows, ...]
        there = xp.where(is_missing(block), xp.zeros_like(block), block)
        total = total + xp.sum(there, axis=0, dtype=xp.float64)
    count = xp.astype(move(np.maximum(seen, 1), place_of(X)), xp.float64)
    return total / count


def column_medians(X: Array, is_missing: Callable[[Array], Array], seen: np.ndarray) -> Array:
    """Medians (p,) of what is there: columns are sorted with the missing values at their end."""
    xp, place = namespace(X), place_of(X)
    inf = xp.asarray(float("inf"), dtype=X.dtype, device=device_of(X))
    middle = []
    for columns in column_chunks(X, 2 * X.shape[0] * 8):
        block = X[:, columns]
        ordered = xp.sort(xp.where(is_missing(block), inf, block), axis=0)
        width, last = ordered.shape[1], np.maximum(seen[columns], 1) - 1
        flat, own = xp.reshape(ordered, (-1,)), np.arange(width)
        # Positions of the two middle values: the same one twice where their number is odd.
        lower, upper = (
            xp.astype(xp.take(flat, move(half * width + own, place), axis=0), xp.float64)
            for half in (last // 2, (last + 1) // 2)
        )
        middle.append(xp.astype(0.5 * lower + 0.5 * upper, X.dtype))
    return xp.concat(middle)


def column_modes(X: Array, is_missing: Callable[[Array], Array]) -> np.ndarray:
    """Most frequent values (p,), the smallest of several, NumPy float64; nan for none."""
    return per_column(X, is_missing, _mode)


def per_column(
    X: Array, is_missing: Callable[[Array], Array], statistic: Callable[[Array], Any]
) -> np.ndarray:
    """A statistic of what is there in each column, one after the other."""
    found = np.full(X.shape[1], np.nan)
    for j in range(X.shape[1]):
        column = X[:, j]
        found[j] = float(statistic(column[~is_missing(column)]))
    return found


def _mode(values):
    if values.shape[0] == 0:
        return float("nan")
    xp = namespace(values)
    distinct, counts = xp.unique_counts(values)
    return xp.min(distinct[counts == xp.max(counts)])
