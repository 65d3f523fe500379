"""Sums over the rows of each class, in float64, block by block.

Moments are taken about the means of the classes in a block, and blocks are merged by the update of
Chan, Golub and LeVeque [1]_, which is also how `partial_fit` adds rows: a large mean costs the
variance no digits, whatever the dtype of the rows.

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

# Workspace of a block: on a CPU it stays in the cache of a core, on a GPU it hides launches.
HOST_BLOCK_BYTES = 2**20
DEVICE_BLOCK_BYTES = 2**28
SMALLEST_BLOCK_ROWS = 256
# Numbers that are copied to CPU memory sooner than they are worked on with a dozen launches.
MOST_NUMBERS_HERE = 2**22
# Libraries with `bincount`.
COUNTERS = ("numpy", "cupy", "torch")
# Classes up to which codes are compared with each of them.
MOST_COMPARED = 64


def work_place(X: Array) -> Place:
    """The compute device of dense rows; sparse ones stay.

    A pass over the rows does not repay a trip to a GPU, so "auto" leaves rows in CPU memory there.
    """
    setting = current_settings().device
    if is_sparse(X):
        return place_of(values_of(X))
    return compute_place(X, 0, setting) if setting == "cuda" else place_of(X)


def row_slices(X: Array, place: Place, n_columns: int) -> Iterator[slice]:
    """Runs of rows whose workspace of `n_columns` float64 a row is bounded."""
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
        Workspace of `compute` in float64 a row.
    compute : callable
        Takes a block at the place of work, in float64 unless `floats` is False.
    floats : bool, default=True
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
    """Sums over features of shares x squared distances from means, plus a constant: (C, n, k).

    Float64. Numbers of the models may be elsewhere than the rows.

    Parameters
    ----------
    X : array (n, p)
    mean : array (k, p)
    shares : array (k, p, C)
    constant : array (C, k)
    vectors : array (k, p, p), optional
        In whose columns distances are measured, rather than in features.
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
    """Float64 arrays in CPU memory, brought by one copy, if they are on a device and small.

    What models are made of there takes a launch for each of dozens of operations.
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
    """Numbers as attributes hold them: float32 or float64."""
    xp = namespace(values)
    return xp.astype(values, xp.float32 if single else xp.float64, copy=False)


@dataclass(frozen=True)
class ClassRows:
    """Rows of k classes.

    Attributes
    ----------
    X : array (n, p), or CSR matrix
    codes : int64 array (n,)
        Classes of the rows, where X is.
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
    """Float64 (n, k): the weight of a row in the column of its class, else 0."""
    place = place_of(codes)
    xp = place.xp
    every = xp.arange(n_classes, dtype=codes.dtype, device=place.device)
    Y = xp.astype(codes[:, None] == every[None, :], xp.float64)
    return Y if weight is None else Y * xp.astype(weight, xp.float64)[:, None]


def rows_of_classes(rows: ClassRows) -> Array:
    """Number of rows (k,) of each class, whatever they weigh."""
    place, k = place_of(rows.codes), rows.n_classes
    xp = place.xp
    if place.kind == "numpy" or (place.kind in COUNTERS and k > MOST_COMPARED):
        return xp.bincount(rows.codes, minlength=k)
    # `bincount` waits for a device, which has to tell it the largest code.
    every = xp.arange(k, dtype=rows.codes.dtype, device=place.device)
    own = xp.astype(rows.codes[None, :] == every[:, None], xp.int64)
    return along_rows(xp.sum, own, xp)


def class_sums(rows: ClassRows, values: Callable[[Any], Any] = lambda X: X) -> tuple[Array, Array]:
    """Weights (k,) and sums of features (k, p) of each class, float64, at the place of work.

    `values` maps rows, dense or CSR, to what is summed of them.
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
    """Of each class: weight (k,), mean (k, p) and variance (k, p), float64.

    Mean and variance are 0 where nothing has weight. They know shares of weights alone, so that no
    weight is too large or too small for them.
    """

    count: Array
    mean: Array
    variance: Array

    def merged(self, other: "ClassMoments") -> "ClassMoments":
        """Moments of the rows of both."""
        return joined_moments([self, other])

    def pooled(self) -> "ClassMoments":
        """Moments of all rows as one class."""
        return _joined(self.count[:, None], self.mean[:, None, :], self.variance[:, None, :])


def joined_moments(each: Sequence[ClassMoments], times: Any = None) -> ClassMoments:
    """Moments of all rows, from those of groups that count `times` each (once, if None)."""
    xp = namespace(each[0].count)
    count, mean, variance = (
        xp.stack([getattr(one, name) for one in each]) for name in ("count", "mean", "variance")
    )
    return _joined(count if times is None else count * _column(times, count), mean, variance)


def _column(times, like):
    """Numbers (a, 1) that arrays (a, k) are multiplied with."""
    place = place_of(like)
    return place.xp.asarray(times, dtype=like.dtype, device=place.device)[:, None]


def _joined(count, mean, variance):
    """Moments of all of counts (a, k), means and variances (a, k, p)."""
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
        # Of the largest weight of each class: products with weights neither overflow nor vanish.
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
