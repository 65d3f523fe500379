"""Votes and means of the first k of K neighbours, which are sorted by distance."""

from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_cupy, namespace


def inverse_distances(distances: Array) -> Array:
    """Weights (m, K) of neighbours: 1 / d, and of rows with some at distance 0 those alone."""
    xp = namespace(distances)
    with np.errstate(divide="ignore"):
        weights = 1.0 / distances
    at_zero = xp.isinf(weights)
    some = xp.any(at_zero, axis=1, keepdims=True)
    return xp.where(some, xp.astype(at_zero, weights.dtype), weights)


def of_neighbours(values: Array, neighbours: Array) -> Array:
    """Values (n, ...) of rows, of neighbours (m, k): an array (m, k, ...)."""
    xp = namespace(values)
    found = xp.take(values, xp.reshape(neighbours, (-1,)), axis=0)
    return xp.reshape(found, (*neighbours.shape, *values.shape[1:]))


def means(targets: Array, neighbours: Array, weights: Array | None) -> Array:
    """Means (m,) or (m, t) of targets (n,) or (n, t) of neighbours (m, k)."""
    xp, found = namespace(targets), of_neighbours(targets, neighbours)
    if weights is None:
        return xp.mean(found, axis=1)
    shaped = weights if found.ndim == 2 else weights[..., None]
    return xp.sum(found * shaped, axis=1) / xp.sum(shaped, axis=1)


class Votes:
    """Votes (m, C) of the first k neighbours for classes, of one k after the other.

    Parameters
    ----------
    codes : int array (m, K)
        Classes of the neighbours.
    weights : array (m, K) or None
        What each of them counts; None is 1.
    n_classes : int
    dtype : dtype
        Of the votes.
    """

    def __init__(self, codes: Array, weights: Array | None, n_classes: int, dtype: Any):
        xp = namespace(codes)
        self._codes, self._weights, self._dtype = codes, weights, dtype
        self._classes = xp.arange(n_classes, dtype=codes.dtype, device=device_of(codes))
        self._counted, self._votes = 0, self._none()

    def of(self, k: int) -> Array:
        """Votes of the first k neighbours; fewer than in the last call start from zero."""
        if k < self._counted:
            self._counted, self._votes = 0, self._none()
        weights, first = self._weights, self._counted
        add = _counted if is_cupy(self._votes) else _one_by_one
        self._votes = add(self._votes, self._codes, weights, self._classes, range(first, k))
        self._counted = k
        return self._votes

    def _none(self) -> Array:
        xp, shape = namespace(self._codes), (self._codes.shape[0], self._classes.shape[0])
        return xp.zeros(shape, dtype=self._dtype, device=device_of(self._codes))


def _one_by_one(votes, codes, weights, classes, places):
    """Votes with those of some more neighbours, added up as scikit-learn does."""
    xp = namespace(votes)
    for j in places:
        own = xp.astype(codes[:, j : j + 1] == classes, votes.dtype)
        votes = votes + (own if weights is None else own * weights[:, j : j + 1])
    return votes


@cache
def _kernel(weighs: bool) -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        f"T votes, raw C codes, {'raw W weights, ' if weighs else ''}"
        "int64 first, int64 last, int64 most, int64 n_classes",
        "T out",
        f"""
        const long long row = i / n_classes * most;
        out = votes;
        for (long long j = first; j < last; ++j)
            if (codes[row + j] == i % n_classes) out += {"weights[row + j]" if weighs else "1"};
        """,
        "gpuml_votes",
    )


def _counted(votes, codes, weights, classes, places):
    """The same in one launch."""
    import cupy

    given = map(cupy.ascontiguousarray, [codes] if weights is None else [codes, weights])
    sizes = places.start, places.stop, codes.shape[1], classes.shape[0]
    return _kernel(weights is not None)(votes, *given, *sizes)


def shares(votes: Array) -> Array:
    """Shares (m, C) of all votes of a row."""
    xp = namespace(votes)
    return votes / xp.sum(votes, axis=1, keepdims=True)


def winners(votes: Array) -> Array:
    """The first class (m,) of most votes."""
    xp = namespace(votes)
    if is_cupy(votes):
        return xp.argmax(votes, axis=1)
    n_classes = votes.shape[1]
    codes = xp.arange(n_classes, device=device_of(votes))
    # Of several maxima `argmax` of torch may take any.
    most = votes == xp.max(votes, axis=1, keepdims=True)
    return xp.min(xp.where(most, codes, n_classes), axis=1)
