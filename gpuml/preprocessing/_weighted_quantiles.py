"""Quantiles of columns whose rows count as often as their weights say, where the rows are."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace, to_host
from gpuml._arrays.ops import clipped

EPS = np.finfo(np.float64).eps


def weighted_quantiles(X: Array, weight: Array, levels: Any, *, average: bool) -> np.ndarray:
    """Quantiles (q, p), nan left out, in CPU memory.

    Parameters
    ----------
    X : array (n, p) of floats
    weight : array (n,)
    levels : array-like (q,)
        From 0 to 1.
    average : bool
        Whether a level that is reached exactly gives the mean of a value and the next one.

    Returns
    -------
    quantiles : float64 ndarray (q, p)
    """
    xp, last = namespace(X), X.shape[0] - 1
    weight = xp.astype(weight, xp.float64)
    found = []
    for j in range(X.shape[1]):
        column = X[:, j]
        order = xp.argsort(column)
        there = xp.where(xp.isnan(column), xp.zeros_like(weight), weight)
        reached = xp.cumulative_sum(xp.take(there, order, axis=0))
        # Rows without weight are no smallest values.
        ranks = np.maximum(np.asarray(levels) * float(reached[last]), np.nextafter(0.0, 1.0))
        at = xp.searchsorted(reached, xp.asarray(ranks, device=device_of(X)))
        at = clipped(at, 0, last)
        rank = xp.take(reached, at, axis=0)
        after = xp.searchsorted(reached, rank, side="right")
        after = xp.where(after > last, at, after)
        low, high = (
            to_host(xp.take(column, xp.take(order, end, axis=0), axis=0)).astype(np.float64)
            for end in (at, after)
        )
        is_exact = to_host(rank) - ranks <= EPS
        found.append(np.where(is_exact, (low + high) / 2, low) if average else low)
    return np.stack(found, axis=1)
