"""What missing values of each column are filled with, on the device of the rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, move, namespace, place_of, to_host
from gpuml._arrays.ops import zeros
from gpuml.preprocessing._places import column_chunks, row_blocks


def is_nan(X: Array) -> Array:
    """Mask of the values that are nan."""
    return namespace(X).isnan(X)


def count_missing(X: Array, is_missing: Callable[[Array], Array]) -> np.ndarray:
    """Number of missing values of each column (p,), in CPU memory."""
    xp = namespace(X)
    total = xp.zeros((X.shape[1],), dtype=xp.int64, device=device_of(X))
    for rows in row_blocks(X, X.shape[1]):
        total = total + xp.sum(xp.astype(is_missing(X[rows, ...]), xp.int64), axis=0)
    return to_host(total)


def column_means(X: Array, is_missing: Callable[[Array], Array], seen: np.ndarray) -> Array:
    """Means (p,) of the values that are not missing, float64."""
    xp = namespace(X)
    total = zeros((X.shape[1],), like=X, xp=xp)
    for rows in row_blocks(X, 9 * X.shape[1]):
        block = X[rows, ...]
        there = xp.where(is_missing(block), xp.zeros_like(block), block)
        total = total + xp.sum(there, axis=0, dtype=xp.float64)
    count = xp.astype(move(np.maximum(seen, 1), place_of(X)), xp.float64)
    return total / count


def column_medians(X: Array, is_missing: Callable[[Array], Array], seen: np.ndarray) -> Array:
    """Medians (p,) of the values that are not missing."""
    return column_quantiles(X, is_missing, seen, [0.5])[0, :]


def column_quantiles(
    X: Array,
    is_missing: Callable[[Array], Array],
    seen: np.ndarray,
    levels: Any,
    method: str = "linear",
) -> Array:
    """Quantiles (q, p) of the values that are not missing; sorting puts missing ones last.

    Parameters
    ----------
    X : array (n, p)
        Without inf.
    is_missing : callable
        Gives the mask of missing values of some columns.
    seen : int ndarray (p,)
        How many values of each column are there. Where none is, the result means nothing.
    levels : array-like of q floats
        From 0 to 1.
    method : str
        How values between two that are there are found, by its name in `numpy.quantile`.
    """
    xp, place = namespace(X), place_of(X)
    inf = xp.asarray(float("inf"), dtype=X.dtype, device=device_of(X))
    found = []
    for columns in column_chunks(X, 2 * X.shape[0] * 8):
        block = X[:, columns]
        ordered = xp.sort(xp.where(is_missing(block), inf, block), axis=0)
        at = np.stack([_positions(n, levels, method) for n in seen[columns].tolist()], axis=1)
        below = np.floor(at)
        lower, upper = (_at(ordered, rows.astype(np.int64)) for rows in (below, np.ceil(at)))
        share = move(at - below, place)
        # As NumPy has it: exact where both are the same, and at both ends.
        gap = upper - lower
        between = xp.where(share < 0.5, lower + gap * share, upper - gap * (1.0 - share))
        between = xp.where(share == 0.5, 0.5 * lower + 0.5 * upper, between)
        found.append(xp.astype(between, X.dtype))
    return found[0] if len(found) == 1 else xp.concat(found, axis=1)


def _at(ordered: Array, rows: np.ndarray) -> Array:
    """Values (q, p) of the columns of an array (n, p), at some rows (q, p) of each; 0 for inf."""
    xp, width = namespace(ordered), ordered.shape[1]
    index = move((rows * width + np.arange(width)).ravel(), place_of(ordered))
    found = xp.astype(xp.take(xp.reshape(ordered, (-1,)), index, axis=0), xp.float64)
    return xp.reshape(xp.where(xp.isinf(found), xp.zeros_like(found), found), rows.shape)


def _positions(n: int, levels: Any, method: Any) -> np.ndarray:
    """Where quantiles are among n sorted values, which are counted from 0."""
    n = max(n, 1)
    if method == "linear":
        return np.asarray(levels) * (n - 1)
    return np.quantile(np.arange(n, dtype=np.float64), levels, method=method)


def column_modes(X: Array, is_missing: Callable[[Array], Array]) -> np.ndarray:
    """Most frequent values (p,), the smallest of several, NumPy float64; nan for none."""
    return per_column(X, is_missing, _mode)


def per_column(
    X: Array, is_missing: Callable[[Array], Array], statistic: Callable[[Array], Any]
) -> np.ndarray:
    """A statistic of the values that are not missing, column by column."""
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
