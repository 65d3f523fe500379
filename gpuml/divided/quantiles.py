"""Exact quantiles of columns whose rows are divided, by bisection.

Each holder sorts its part of every column once. Then all of them count how many of their values are
not above some bounds, which narrows down each value that is looked for. Values are compared as
integers in the same order, so that 64 bits are found after 8 passes whatever the values are.
"""

from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml.data import Holders

# Bounds in a pass, which finds 8 bits of every value.
N_BOUNDS = 256


def sorted_column(values: Array) -> Array:
    """Floats (n,) of NumPy or CuPy as sorted integers in the same order (n,), uint64."""
    xp = namespace(values)
    # -0.0 becomes 0.0.
    bits = xp.asarray(xp.astype(values, xp.float64) + 0.0, copy=True).view(xp.uint64)
    top = xp.uint64(2**63)
    return xp.sort(xp.where(bits >= top, ~bits, bits | top))


def divided_quantiles(columns: Holders, seen: np.ndarray, levels: Any) -> np.ndarray:
    """Quantiles of columns, interpolated linearly as NumPy does.

    Parameters
    ----------
    columns : Holders
        Of lists of p sorted columns, by `sorted_column`.
    seen : int ndarray (p,)
        How many values each has. Where there are none, quantiles mean nothing.
    levels : array-like of q floats
        From 0 to 1.

    Returns
    -------
    quantiles : float64 ndarray (q, p)
    """
    at = np.multiply.outer(np.asarray(levels), np.maximum(seen - 1, 0))
    ranks = np.concatenate([np.floor(at), np.ceil(at)]).astype(np.int64)
    low, high = np.split(_order_statistics(columns, ranks), 2)
    share, gap = at - np.floor(at), high - low
    between = np.where(share < 0.5, low + gap * share, high - gap * (1 - share))
    return np.where(share == 0.5, 0.5 * low + 0.5 * high, between)


def _order_statistics(columns: Holders, ranks: np.ndarray) -> np.ndarray:
    """Values (q, p) at some places of columns, counted from 0, that are sorted as a whole."""
    # The keys are not below `low` and not above `high`.
    low = np.zeros(ranks.shape, dtype=np.uint64)
    high = np.full(ranks.shape, 2**64 - 1, dtype=np.uint64)
    one, steps = np.uint64(1), np.arange(1, N_BOUNDS + 1, dtype=np.uint64)[:, None, None]
    while (low < high).any():
        width = high - low
        # Of the first pass, the last wraps around to the largest integer.
        ends = steps * (width // np.uint64(N_BOUNDS) + one) - one
        bounds = low + np.minimum(ends, width)
        first = np.sum(columns.total(_n_below, bounds) <= ranks, axis=0)
        first = np.minimum(first, N_BOUNDS - 1)  # where no value is there at all
        high = np.take_along_axis(bounds, first[None], axis=0)[0]
        before = np.take_along_axis(bounds, np.maximum(first - 1, 0)[None], axis=0)[0]
        low = np.where(first > 0, np.minimum(before + one, high), low)
    top = np.uint64(2**63)
    return np.where(low >= top, low ^ top, ~low).view(np.float64)


def _n_below(columns: list[Array], bounds: np.ndarray) -> Any:
    """How many keys are not above each of some bounds (m, q, p): int64 (m, q, p)."""
    found = []
    for j, column in enumerate(columns):
        xp = namespace(column)
        at = xp.searchsorted(column, xp.asarray(bounds[..., j].ravel()), side="right")
        found.append(to_host(at).reshape(bounds.shape[:-1]))
    return np.stack(found, axis=-1)
