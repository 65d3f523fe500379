"""Kernels of pairs of rows: those of `sklearn.metrics.pairwise.pairwise_kernels`, by name.

Each is a function of one number for a pair, its base: the inner product, the squared distance, the
sum of absolute or of relative differences, the cosine, or what X says it is. All kernels of one
base are made from one matrix of it, in float64.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform

from gpuml._arrays import Array, is_numpy, namespace
from gpuml._arrays.ops import any_true, clipped
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.data import cut

# Threads apply NumPy functions to blocks of this many bytes, which stay in a cache.
BLOCK_BYTES = 2**18
# Blocks of products of all features are larger, as BLAS copies its other factor for each.
PRODUCT_BYTES = 2**20
# The median uses about so many rows.
FEW_ROWS = 100
BASES = {
    "linear": "inner",
    "poly": "inner",
    "polynomial": "inner",
    "sigmoid": "inner",
    "rbf": "squares",
    "laplacian": "absolute",
    "cosine": "cosine",
    "additive_chi2": "relative",
    "chi2": "relative",
    "precomputed": "given",
}
# Those that are their base.
SAME = ("linear", "cosine", "precomputed")
# What each depends on besides its base.
PARAMETERS = {
    "poly": ("gamma", "coef0", "degree"),
    "polynomial": ("gamma", "coef0", "degree"),
    "sigmoid": ("gamma", "coef0"),
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "chi2": ("gamma",),
}


@dataclass(frozen=True)
class PairKernel:
    """A kernel by its name, with the parameters that it depends on; None for others.

    Attributes
    ----------
    name : str
    gamma : float or None
        None is one divided by the number of features; 1 of "chi2".
    coef0, degree : float or None
    """

    name: str
    gamma: float | None = None
    coef0: float | None = None
    degree: float | None = None

    @classmethod
    def of(cls, name: str, gamma: Any, coef0: Any, degree: Any) -> "PairKernel":
        """The same for all values of parameters that it does not depend on."""
        given = {"gamma": gamma, "coef0": coef0, "degree": degree}
        return cls(name, **{each: given[each] for each in PARAMETERS.get(name, ())})

    @property
    def base(self) -> str:
        """What it is a function of."""
        return BASES[self.name]

    def rank(self, n_features: int) -> int | None:
        """A bound on the rank of its matrix for rows with so many features, if there is one."""
        return n_features if self.name in SAME else None

    def of_base(self, base: Array, n_features: int, *, in_place: bool = False) -> Array:
        """Kernels of pairs from their base; `in_place` allows overwriting the base."""
        gamma = self.gamma
        if gamma is None:
            gamma = 1.0 if self.name == "chi2" else 1.0 / n_features
        shift, degree = self.coef0, self.degree

        def function(some, xp):
            if self.name in ("rbf", "laplacian", "chi2"):
                return xp.exp(-gamma * some)
            if self.name == "sigmoid":
                return xp.tanh(gamma * some + shift)
            if self.name in ("poly", "polynomial"):
                return (gamma * some + shift) ** degree
            return -some if self.name == "additive_chi2" else some

        if self.name in SAME and in_place:
            return base
        return _by_entry(function, base, in_place)


def _by_entry(function: Callable[[Array, Any], Array], base: Array, in_place: bool) -> Array:
    """A function of each entry; NumPy's in blocks of rows, in threads."""
    xp = namespace(base)
    if not is_numpy(base):
        return function(base, xp)
    out = base if in_place else np.empty_like(base)

    def work(rows):
        out[rows] = function(base[rows], np)

    blocks = cut(slice(0, len(base)), max(1, BLOCK_BYTES // (8 * max(1, base.shape[1]))))
    for _ in ordered_map(work, blocks, blas_threads()):
        pass
    return out


def pair_base(kind: str, X: Array, Y: Array | None = None) -> Array:
    """The base (n, m) of pairs of rows of X (n, p) and Y (m, p), which are X again if None.

    It may be X itself, where that is "given". "apart" are squared distances from differences, which
    keep all digits of rows that are close to each other; "squares" are made of inner products.

    Raises
    ------
    ValueError
        If "relative" differences of negative values are asked for.
    """
    xp = namespace(X)
    same, Y = Y is None, X if Y is None else Y
    if kind == "given":
        return X
    if kind == "inner":
        return X @ Y.T
    if kind == "squares":
        return _squares(X, Y, same, xp)
    if kind == "apart" and is_numpy(X):
        metric = "sqeuclidean"
        return squareform(pdist(X, metric)) if same else cdist(X, Y, metric)
    if kind == "cosine":
        X = _normed(X, xp)
        return X @ (X if same else _normed(Y, xp)).T
    if kind == "relative":
        for name, values in (("X", X), ("Y", Y)):
            if any_true(values < 0, xp):
                raise ValueError(f"{name} contains negative values.")
    return _by_feature(kind, X, Y, xp)


def _squares(X, Y, same, xp):
    # A common offset of all rows would cost digits of squares. A median ignores a wild row.
    few = Y[:: max(1, Y.shape[0] // FEW_ROWS), :]
    middle = xp.sort(few, axis=0)[few.shape[0] // 2, :]
    X = X - middle
    Y = X if same else Y - middle
    across, size, other = (-2.0 * Y).T, xp.sum(X * X, axis=1)[:, None], xp.sum(Y * Y, axis=1)
    if is_numpy(X):
        found = _squares_in_blocks(X, across, size, other)
    else:
        found = clipped(X @ across + size + other[None, :], 0.0)
    if same:
        _set_diagonal(found, 0.0)
    return found


def _squares_in_blocks(X, across, size, other):
    """Squares in blocks of rows, which are finished while they are in a cache, in threads."""
    found = np.empty((len(X), len(other)))

    def work(rows):
        some = found[rows]
        np.matmul(X[rows], across, out=some)
        some += size[rows]
        some += other
        np.maximum(some, 0.0, out=some)

    blocks = cut(slice(0, len(X)), max(1, PRODUCT_BYTES // (8 * max(1, len(other)))))
    threads = blas_threads() if may_limit_blas() else 1
    with one_blas_thread():
        deque(ordered_map(work, blocks, threads), maxlen=0)
    return found


def _set_diagonal(square, value):
    xp, n = namespace(square), square.shape[0]
    if is_numpy(square):
        square.flat[:: n + 1] = value
        return
    flat = xp.reshape(square, (-1,))  # a view
    flat[:: n + 1] = value


def _normed(X, xp):
    length = xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))
    return X / xp.where(length > 0, length, xp.ones_like(length))


def _by_feature(kind, X, Y, xp):
    """Sums over features of what a pair differs in, in blocks of rows that stay in a cache."""

    def work(rows):
        some = X[rows, :]
        if kind == "absolute" and is_numpy(X):
            return cdist(some, Y, "cityblock")
        total = some[:, :1] * 0.0 + Y[None, :, 0] * 0.0
        for j in range(X.shape[1]):
            one, other = some[:, j : j + 1], Y[None, :, j]
            apart = one - other
            if kind != "relative":
                total += xp.abs(apart) if kind == "absolute" else apart * apart
                continue
            both = one + other
            total += apart * apart / xp.where(both > 0, both, xp.ones_like(both))
        return total

    if not is_numpy(X):
        return work(slice(0, X.shape[0]))
    blocks = cut(slice(0, len(X)), max(1, BLOCK_BYTES // (8 * max(1, len(Y)))))
    return np.concatenate(list(ordered_map(work, blocks, blas_threads())))
