r"""k-means of many runs on the same rows: nearest centres, costs, and Lloyd's iterations.

A run looks for centres c that make

.. math:: \sum_i w_i \min_j |x_i - c_j|^2

small: it labels each row by its nearest centre, moves each centre to the mean of its rows, and goes
on until no label changes or centres move, squared and summed, by no more than its tolerance. All
runs that are under way read the rows together: one product of a tile of rows with the centres of
all of them, and one of their labels, as zeros and ones, with the tile. Those that are done leave.

S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import (
    Array,
    device_of,
    is_cupy,
    is_numpy,
    itemsize,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import zeros
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.solvers import _gpu_clusters
from gpuml.solvers._far_rows import with_all_centres
from gpuml.solvers._near_centres import Rows, run_alone

# Workspace of a tile: of rows x centres of all runs.
TILE_BYTES, HOST_TILE_BYTES = 2**27, 2**21


@dataclass(frozen=True)
class Points:
    """Rows near the origin, which products lose digits of otherwise.

    Attributes
    ----------
    X : array (n, p)
    weight : array (n,) or None
        Of the dtype of X, none negative.
    """

    X: Array
    weight: Array | None

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of that of the rows."""
        return np.dtype(str(self.X.dtype).rpartition(".")[2])

    @property
    def weights(self) -> np.ndarray:
        """Weights (n,) of all rows, in CPU memory."""
        if self.weight is None:
            return np.ones(self.n_rows, dtype=self.dtype)
        return to_host(self.weight)

    def rows(self, numbers: Array) -> Array:
        """Some rows (m, p), by their numbers."""
        return namespace(self.X).take(self.X, move(numbers, place_of(self.X)), axis=0)

    def lloyd(self, runs: "Sequence[Run]") -> "list[Clusters]":
        """What each run comes to; see `lloyd`."""
        return lloyd(self, runs)

    def costs(self, centres: Sequence[Array]) -> list[tuple[float, np.ndarray]]:
        """Cost of each set of centres, and how many rows each has; see `costs`."""
        return costs(self, centres)

    def labels(self, centres: Array) -> Array:
        """The nearest centre of each row; see `labels_of`."""
        return labels_of(self.X, centres)

    def n_pairs(self, one: Array, other: Array) -> int:
        """How many pairs of labels rows have, by two sets of centres."""
        return pairs_of_labels(self, one, other).shape[0]


@dataclass(frozen=True)
class Run:
    """Where a run begins, centres (k, p) where the rows are, and when it ends.

    Attributes
    ----------
    start : array (k, p)
    max_iter : int
    tol : float
        Of squared moves of all centres together.
    """

    start: Array
    max_iter: int
    tol: float


@dataclass(frozen=True)
class Clusters:
    """Where a run ended.

    Attributes
    ----------
    centres : array (k, p)
        Where the rows are, of their dtype.
    n_iter : int
    inertia : float
        The cost.
    sizes : ndarray (k,)
        Rows of each centre, the fewest first.
    """

    centres: Array
    n_iter: int
    inertia: float
    sizes: np.ndarray

    @property
    def n_found(self) -> int:
        """Centres that have rows."""
        return int(np.count_nonzero(self.sizes))


def lloyd(points: Points, runs: Sequence[Run]) -> list[Clusters]:
    """What each run comes to.

    Rows in CPU memory are read run by run, since what is certain of most rows of a run needs no
    product (`run_alone`); so are CuPy's, by kernels for all runs. Others are read by all runs
    together.
    """
    if is_cupy(points.X):
        return [Clusters(*found) for found in _gpu_clusters.lloyd(points.X, points.weight, runs)]
    if not is_numpy(points.X):
        return _together(points, runs)

    rows = Rows.of(points.X, points.weight)

    def alone(run):
        return Clusters(*run_alone(rows, run.start, run.max_iter, run.tol))

    if not may_limit_blas():
        return [alone(run) for run in runs]
    threads = blas_threads()
    with one_blas_thread():
        return list(ordered_map(alone, runs, threads))


# ---------------------------------------------------------------- labels and costs


def costs(points: Points, centres: Sequence[Array]) -> list[tuple[float, np.ndarray]]:
    """Cost of each set of centres (k, p), and how many rows each has, the fewest first."""
    return sorted_sizes(costs_and_sizes(points, centres), centres)


def costs_and_sizes(points: Points, centres: Sequence[Array]) -> Array:
    """Cost of each set of centres, then the number of rows of each centre: (R, 1 + K) sums."""
    X, xp = points.X, namespace(points.X)
    if is_cupy(X):
        return _gpu_clusters.costs_and_sizes(X, points.weight, centres)
    padded = _Padded.of(centres)
    n_runs, most = padded.sizes.shape[0], padded.centres.shape[1]
    cost = zeros((n_runs,), like=X, xp=xp)
    sizes = zeros((n_runs, most), like=X, xp=xp)
    flat = xp.reshape(padded.centres, (-1, X.shape[1]))
    first = xp.arange(n_runs, device=device_of(X))[:, None] * most
    for tile in _tiles(X, padded):
        rows, labels = X[tile, :], padded.nearest(X[tile, :])
        own = xp.reshape(xp.take(flat, xp.reshape(labels + first, (-1,)), axis=0), (n_runs, -1))
        away = xp.reshape(own, (n_runs, *rows.shape)) - rows[None, ...]
        squares = xp.sum(away * away, axis=2)
        if points.weight is not None:
            squares = squares * points.weight[tile]
        cost += xp.sum(squares, axis=1, dtype=xp.float64)
        own_rows = labels[:, None, :] == _numbers(most, X, xp)[:, None]
        sizes += xp.sum(xp.astype(own_rows, xp.float64), axis=2)
    return xp.concat([cost[:, None], sizes], axis=1)


def sorted_sizes(both: Array, centres: Sequence[Array]) -> list[tuple[float, np.ndarray]]:
    """Costs and sizes of `costs_and_sizes`, in CPU memory, the smallest size first."""
    return [
        (float(row[0]), np.sort(row[1 : 1 + each.shape[0]].astype(np.int64)))
        for row, each in zip(to_host(both), centres, strict=True)
    ]


def labels_of(X: Array, centres: Array) -> Array:
    """The nearest centre of each row (n,), int32; of several that are as near the first."""
    if is_cupy(X):
        return _gpu_clusters.labels_of(X, centres)
    xp, padded = namespace(X), _Padded.of([centres])
    found = [padded.nearest(X[tile, :])[0, :] for tile in _tiles(X, padded)]
    if not found:  # a shard without rows of a split
        return xp.zeros((0,), dtype=xp.int32, device=device_of(X))
    return xp.astype(xp.concat(found), xp.int32)


def pairs_of_labels(points: Points, one: Array, other: Array) -> Array:
    """The pairs of labels, as one number each, that rows have by two sets of k centres."""
    labels, others = (labels_of(points.X, centres) for centres in (one, other))
    return namespace(points.X).unique_values(labels * one.shape[0] + others)


@dataclass(frozen=True)
class _Padded:
    """Sets of centres (R, K, p) with zeros beyond the `sizes` (R,) of each, and their lengths."""

    centres: Array
    lengths: Array  # (R, K), inf beyond the sizes
    sizes: np.ndarray

    @classmethod
    def of(cls, centres: Sequence[Array]) -> "_Padded":
        xp, sizes = namespace(centres[0]), np.asarray([each.shape[0] for each in centres])
        most, like = int(sizes.max()), centres[0]
        out = xp.zeros(
            (len(centres), most, like.shape[1]), dtype=like.dtype, device=device_of(like)
        )
        for r, each in enumerate(centres):
            out[r, : each.shape[0], :] = each
        return cls.made(out, sizes)

    @classmethod
    def made(cls, centres: Array, sizes: np.ndarray) -> "_Padded":
        xp = namespace(centres)
        beyond = move(np.arange(centres.shape[1]) >= sizes[:, None], place_of(centres))
        lengths = xp.sum(centres * centres, axis=2)
        return cls(centres, xp.where(beyond, xp.full_like(lengths, xp.inf), lengths), sizes)

    def nearest(self, rows: Array) -> Array:
        """The nearest centre of each row in each set (R, m)."""
        xp = namespace(rows)
        n_runs, most, p = self.centres.shape
        products = xp.reshape(self.centres, (-1, p)) @ rows.T
        products = xp.reshape(products, (n_runs, most, rows.shape[0]))
        products *= -2.0
        products += self.lengths[:, :, None]
        return xp.argmin(products, axis=1)


def _tiles(X: Array, padded: _Padded) -> Iterator[slice]:
    n_runs, most, p = padded.centres.shape
    size = HOST_TILE_BYTES if place_of(X).is_host else TILE_BYTES
    step = max(1, size // (itemsize(X.dtype) * n_runs * max(most, p)))
    for start in range(0, X.shape[0], step):
        yield slice(start, min(start + step, X.shape[0]))


def _numbers(size: int, like: Array, xp: Any) -> Array:
    return xp.arange(size, device=device_of(like))


# ---------------------------------------------------------------- all runs together


def _together(points: Points, runs: Sequence[Run]) -> list[Clusters]:
    X, xp = points.X, namespace(points.X)
    ends: list[tuple[Array, int]] = [(X, 0)] * len(runs)
    left = np.arange(len(runs))
    padded = _Padded.of([run.start for run in runs])
    labels = xp.full((len(runs), points.n_rows), -1, dtype=xp.int32, device=device_of(X))
    for n_iter in range(1, max(run.max_iter for run in runs) + 1):
        moved, labels, stays = _step(points, padded, labels)
        shift = xp.sum((moved - padded.centres) ** 2, axis=(1, 2), dtype=xp.float64)
        padded = _Padded.made(moved, padded.sizes)
        told = to_host(xp.stack([xp.astype(stays, xp.float64), shift]))
        tol = np.asarray([run.tol for run in runs])[left]
        last = np.asarray([run.max_iter for run in runs])[left] == n_iter
        done = (told[0] > 0) | (told[1] <= tol) | last
        if not done.any():
            continue
        for at in np.flatnonzero(done):
            ends[left[at]] = padded.centres[int(at), : padded.sizes[at], :], n_iter
        left, on = left[~done], np.flatnonzero(~done)
        if len(left) == 0:
            break
        index = move(on, place_of(X))
        labels = xp.take(labels, index, axis=0)
        padded = _Padded.made(xp.take(padded.centres, index, axis=0), padded.sizes[on])
    seen = costs(points, [centres for centres, _ in ends])
    return [Clusters(*end, *found) for end, found in zip(ends, seen, strict=True)]


def sums_by_centre(points: Points, centres: Sequence[Array]) -> tuple[Array, Array]:
    """Sums (R, K, p) of the rows that are nearest to each centre, and their weights (R, K)."""
    if is_cupy(points.X):
        return _gpu_clusters.sums_by_centre(points.X, points.weight, centres)
    return _sums(points, _Padded.of(centres), None)


def _sums(points: Points, padded: _Padded, labels: Array | None) -> tuple[Array, Array]:
    """The same; writes labels (R, n), if given."""
    X, xp = points.X, namespace(points.X)
    n_runs, most, p = padded.centres.shape
    sums = zeros((n_runs, most, p), like=X, xp=xp)
    weights = zeros((n_runs, most), like=X, xp=xp)
    for tile in _tiles(X, padded):
        rows = X[tile, :]
        found = padded.nearest(rows)
        ones = xp.astype(found[:, None, :] == _numbers(most, X, xp)[:, None], X.dtype)
        if points.weight is not None:
            ones *= points.weight[tile]
        products = xp.reshape(ones, (-1, rows.shape[0])) @ rows
        sums += xp.astype(xp.reshape(products, sums.shape), xp.float64)
        weights += xp.sum(ones, axis=2, dtype=xp.float64)
        if labels is not None:
            labels[:, tile] = xp.astype(found, labels.dtype)
    return sums, weights


def _step(points: Points, padded: _Padded, labels: Array) -> tuple[Array, Array, Array]:
    """New centres (R, K, p), new labels (R, n), and whether these are the old ones (R,)."""
    X, xp = points.X, namespace(points.X)
    most, new = padded.centres.shape[1], xp.empty_like(labels)
    sums, weights = _sums(points, padded, new)
    moved = sums / xp.where(weights > 0, weights, xp.ones_like(weights))[..., None]
    moved = xp.astype(moved, X.dtype)
    for r in np.flatnonzero((to_host(weights) <= 0).sum(axis=1) > most - padded.sizes):
        own = slice(0, padded.sizes[r])
        moved[int(r), own, :] = with_all_centres(
            (points.X, points.weight),
            padded.centres[int(r), own, :],
            new[int(r), :],
            sums[int(r), own, :],
            weights[int(r), own],
        )
    return moved, new, xp.all(new == labels, axis=1)
