"""Sums over the rows of each class, in float64, block by block.

Moments are computed about the means of the classes in a block. The update of Chan, Golub and
LeVeque [1]_ merges blocks, and adds the rows of `partial_fit`. So a large mean costs no digits of
the variance, for every dtype of the rows.

References
----------
.. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance:
   analysis and recommendations", The American Statistician 37 (1983).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import (
    Array,
    Place,
    compute_place,
    is_sparse,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import along_rows
from gpuml._inputs.csr import in_float64
from gpuml._settings.config import current_settings
from gpuml.data import cut
from gpuml.naive_bayes._input import values_of

# Workspace of a block: small enough for the cache of a CPU core; on a GPU, large enough to hide the
# time of launches.
HOST_BLOCK_BYTES = 2**20
DEVICE_BLOCK_BYTES = 2**28
SMALLEST_BLOCK_ROWS = 256
# The most numbers whose copy to CPU memory is faster than a dozen launches on a GPU.
MOST_NUMBERS_HERE = 2**22
# Libraries with `bincount`.
COUNTERS = ("numpy", "cupy", "torch")
# Up to this many classes, codes are compared with each class.
MOST_COMPARED = 64


def work_place(X: Array) -> Place:
    """The compute device of dense rows; sparse rows stay where they are.

    One pass over the rows does not repay moving them to a GPU, so "auto" leaves rows in CPU memory.
    """
    setting = current_settings().device
    if is_sparse(X):
        return place_of(values_of(X))
    return compute_place(X, 0, setting) if setting == "cuda" else place_of(X)


def row_slices(X: Array, place: Place, n_columns: int) -> Iterator[slice]:
    """Slices of rows with a bounded workspace, of `n_columns` float64 numbers per row."""
    bound = current_settings().block_bytes
    if bound is None:
        bound = HOST_BLOCK_BYTES if place.is_host else DEVICE_BLOCK_BYTES
        n_rows = max(SMALLEST_BLOCK_ROWS, bound // (8 * n_columns))
    else:
        n_rows = max(1, bound // (8 * n_columns))
    return cut(slice(0, X.shape[0]), n_rows)


def in_blocks(
    X: Array, n_columns: int, compute: Callable[[Array], Array], *, floats: bool = True
) -> Array:
    """Results (b, k) of `compute` for blocks (b, p) of dense rows, joined at the place of the rows.

    Parameters
    ----------
    X : array (n, p)
    n_columns : int
        Workspace of `compute`, as a number of float64 values per row.
    compute : callable
        Gets a block on the compute device, in float64 unless `floats` is False.
    floats : bool, default=True
        Whether to convert blocks to float64.
    """
    home, work = place_of(X), work_place(X)
    parts = []
    for rows in row_slices(X, work, n_columns):
        block = move(X[rows, ...], work)
        block = work.xp.astype(block, work.xp.float64, copy=False) if floats else block
        parts.append(move(compute(block), home))
    return parts[0] if len(parts) == 1 else home.xp.concat(parts, axis=0)


def class_distances(
    X: Array, mean: Array, shares: Array, constant: Array, vectors: Array | None = None
) -> Array:
    """Sums over features of shares times squared distances from means, plus a constant.

    The result is float64 (C, n, k). The arrays of the models may be on another device than X.

    Parameters
    ----------
    X : array (n, p)
    mean : array (k, p)
    shares : array (k, p, C)
    constant : array (C, k)
    vectors : array (k, p, p), optional
        Measure distances along the columns of these matrices, instead of the features.
    """
    place, (k, p, n_models) = work_place(X), shares.shape
    mean, shares, constant, vectors = (move(a, place) for a in (mean, shares, constant, vectors))

    def joint(block: Array) -> Array:
        said = []
        for c in range(k):
            away = block - mean[c, :]
            away = away if vectors is None else away @ vectors[c, ...]
            said.append((away * away) @ shares[c, ...])
        return place.xp.stack(said, axis=-1) + constant  # (b, C, k)

    found = in_blocks(X, 3 * p + 2 * n_models * k, joint)
    return namespace(X).permute_dims(found, (1, 0, 2))


def here_if_few(arrays: Sequence[Array]) -> Sequence[Array]:
    """Float64 arrays, moved to CPU memory in one copy if they are small and on a device.

    There, models need dozens of operations on them, each of which would be a launch on a GPU.
    """
    n_numbers = sum(math.prod(a.shape) for a in arrays)
    if place_of(arrays[0]).is_host or n_numbers > MOST_NUMBERS_HERE:
        return arrays
    xp = namespace(*arrays)
    flat = to_host(xp.concat([xp.reshape(a, (-1,)) for a in arrays]))
    ends = np.cumsum([math.prod(a.shape) for a in arrays])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(tuple(a.shape)) for part, a in zip(parts, arrays, strict=True)]


def as_kept(values: Array, *, single: bool) -> Array:
    """Numbers in the dtype of attributes: float32 or float64."""
    xp = namespace(values)
    return xp.astype(values, xp.float32 if single else xp.float64, copy=False)


@dataclass(frozen=True)
class ClassRows:
    """Rows of k classes.

    Attributes
    ----------
    X : array (n, p), or CSR matrix
    codes : int64 array (n,)
        Classes of the rows, on the device of X.
    weight : array (n,) or None
    n_classes : int
    """

    X: Any
    codes: Array
    weight: Array | None
    n_classes: int

    def blocks(self, n_columns: int) -> Iterator[tuple[Array, Array, Array]]:
        """Blocks of dense rows (b, p), codes (b,) and weighted indicators (b, k) of classes."""
        work = work_place(self.X)
        for rows in row_slices(self.X, work, n_columns + self.n_classes):
            X, codes = move(self.X[rows, ...], work), move(self.codes[rows], work)
            weight = None if self.weight is None else move(self.weight[rows], work)
            yield X, codes, indicators(codes, weight, self.n_classes)


def indicators(codes: Array, weight: Array | None, n_classes: int) -> Array:
    """Float64 (n, k): the weight of each row in the column of its class, and 0 elsewhere."""
    place = place_of(codes)
    xp = place.xp
    every = xp.arange(n_classes, dtype=codes.dtype, device=place.device)
    Y = xp.astype(codes[:, None] == every[None, :], xp.float64)
    return Y if weight is None else Y * xp.astype(weight, xp.float64)[:, None]


def rows_of_classes(rows: ClassRows) -> Array:
    """Number of rows (k,) of each class, regardless of weights."""
    place, k = place_of(rows.codes), rows.n_classes
    xp = place.xp
    if place.kind == "numpy" or (place.kind in COUNTERS and k > MOST_COMPARED):
        return xp.bincount(rows.codes, minlength=k)
    # `bincount` would wait for the device to return the largest code.
    every = xp.arange(k, dtype=rows.codes.dtype, device=place.device)
    own = xp.astype(rows.codes[None, :] == every[:, None], xp.int64)
    return along_rows(xp.sum, own, xp)


def class_sums(rows: ClassRows, values: Callable[[Any], Any] = lambda X: X) -> tuple[Array, Array]:
    """Weights (k,) and sums of features (k, p) of each class, float64, on the compute device.

    `values` maps rows, dense or CSR, to the values to sum.
    """
    if is_sparse(rows.X):
        Y = indicators(rows.codes, rows.weight, rows.n_classes)
        xp = namespace(Y)
        sums = in_float64(values(rows.X)).T @ Y
        return xp.sum(Y, axis=0), xp.matrix_transpose(sums)
    total: Any = None
    for X, _, Y in rows.blocks(2 * rows.X.shape[1]):
        xp = namespace(Y)
        X = xp.astype(values(X), xp.float64, copy=False)
        found = xp.sum(Y, axis=0), xp.matrix_transpose(Y) @ X
        total = found if total is None else tuple(a + b for a, b in zip(total, found, strict=True))
    return total


@dataclass(frozen=True)
class ClassMoments:
    """Weight (k,), mean (k, p) and variance (k, p) of each class, float64.

    Mean and variance are 0 for a class without weight. They are computed from relative weights, so
    that no weight is too large or too small.
    """

    count: Array
    mean: Array
    variance: Array

    def merged(self, other: "ClassMoments") -> "ClassMoments":
        """Moments of the rows of both together."""
        return joined_moments([self, other])

    def pooled(self) -> "ClassMoments":
        """Moments of all rows as one class."""
        return _joined(self.count[:, None], self.mean[:, None, :], self.variance[:, None, :])


def joined_moments(each: Sequence[ClassMoments], times: Any = None) -> ClassMoments:
    """Moments of all rows, from those of groups that count `times` times each (None: once)."""
    xp = namespace(each[0].count)
    count, mean, variance = (
        xp.stack([getattr(one, name) for one in each]) for name in ("count", "mean", "variance")
    )
    return _joined(count if times is None else count * _column(times, count), mean, variance)


def _column(times, like):
    """Numbers as a column (a, 1), to multiply arrays (a, k) with."""
    place = place_of(like)
    return place.xp.asarray(times, dtype=like.dtype, device=place.device)[:, None]


def _joined(count, mean, variance):
    """Moments of all groups together, from counts (a, k), means and variances (a, k, p)."""
    xp = namespace(count)
    total = xp.sum(count, axis=0)
    share = (count / _or_one(total))[..., None]
    whole = xp.sum(share * mean, axis=0)
    step = mean - whole
    return ClassMoments(total, whole, xp.sum(share * (variance + step * step), axis=0))


def class_moments(rows: ClassRows) -> ClassMoments:
    """Moments of dense rows, in one pass."""
    total: Any = None
    for X, codes, Y in rows.blocks(3 * rows.X.shape[1]):
        found = _moments(X, codes, Y, weighted=rows.weight is not None)
        total = found if total is None else total.merged(found)
    return total


def column_moments(rows: ClassRows) -> ClassMoments:
    """Moments of all rows as one class, without weights."""
    return class_moments(replace(rows, codes=0 * rows.codes, weight=None, n_classes=1))


def _moments(X, codes, Y, *, weighted):
    xp = namespace(Y)
    X = xp.astype(X, xp.float64, copy=False)
    unit = xp.ones_like(Y[0, :])
    if weighted:
        # Divide by the largest weight of each class, so that products neither overflow nor vanish.
        unit = _or_one(xp.max(Y, axis=0))
        Y = Y / unit
    turned = xp.matrix_transpose(Y)
    count = xp.sum(Y, axis=0)
    divisor = _or_one(count)[:, None]
    mean = (turned @ X) / divisor
    Z = X - xp.take(mean, codes, axis=0)
    rest = (turned @ Z) / divisor  # 0 up to the rounding of the mean
    variance = (turned @ (Z * Z)) / divisor - rest**2
    return ClassMoments(unit * count, mean + rest, variance)


def _or_one(count):
    xp = namespace(count)
    return xp.where(count > 0, count, xp.ones_like(count))
