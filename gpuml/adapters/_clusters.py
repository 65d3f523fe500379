"""Sums over the rows of clusters, in passes that use all of a GPU.

A reduction along the rows of a matrix has few results, and CuPy gives a few of them to one block of
threads: most of a GPU then waits. Here each thread adds up one column of every so many rows:
neighbours of it read what is side by side in memory, and the sums of all threads are added then.
Sums are float64.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml._arrays.ops import along_rows

# As many threads as a large GPU runs at a time, about.
MOST_THREADS = 2**18
# Threads that can add up their numbers without memory.
WARP = 32


class Moments(NamedTuple):
    """Means (p,) of columns, as NumPy; means over columns of their squares and of the variances."""

    means: np.ndarray
    mean_square: float
    variance: float


class Closeness(NamedTuple):
    """Weighted squared distances of rows to their centres, summed, and how many have rows."""

    cost: float
    n_found: int


def by_rows(X: Array) -> Array:
    """A matrix with contiguous rows, which the sums here read."""
    if not _is_cupy(X):
        return X
    import cupy

    return cupy.ascontiguousarray(X)


def moments(X: Array) -> Moments:
    """Mean and variance of rows (n, p), in one pass.

    Sums are those of differences to the first row, which a large mean does not take digits from.
    The variance is inf or nan where squares are beyond float64.
    """
    n_rows, n_columns = X.shape
    with np.errstate(over="ignore", invalid="ignore"):
        first, second, origin = _sums_on_gpu(X) if _is_cupy(X) else _sums_elsewhere(X)
        shift = first / n_rows
        spread = max(float(second.sum()) / n_rows - float(shift @ shift), 0.0)
        means = origin + shift
        return Moments(means, float(means @ means) / n_columns, spread / n_columns)


def closeness(X: Array, centres: Array, labels: Array, weight: Array | None = None) -> Closeness:
    """How close rows are to their centres.

    Differences, unlike products of rows and centres, lose no digits.

    Parameters
    ----------
    X : array (n, p)
    centres : array (k, p)
        In the library and on the device of X.
    labels : int array (n,)
        The centre of each row.
    weight : array (n,) or None
    """
    xp = namespace(X)
    if _is_cupy(X):
        return _closeness_on_gpu(X, centres, labels, weight)
    squared = xp.sum(xp.astype(X - xp.take(centres, labels, axis=0), xp.float64) ** 2, axis=1)
    cost = float(xp.sum(squared if weight is None else squared * weight))
    return Closeness(cost, xp.unique_values(labels).shape[0])


def _is_cupy(x):
    return type(x).__module__.startswith("cupy")


def _sums_elsewhere(X):
    xp = namespace(X)
    origin = xp.astype(X[:1, :], xp.float64)
    rows = xp.astype(X, xp.float64) - origin
    return map(to_host, (xp.sum(rows, axis=0), xp.sum(rows * rows, axis=0), origin[0, :]))


def _sums_on_gpu(X):
    import cupy

    n_groups = _n_groups(X)
    parts = cupy.empty((3, X.shape[1], n_groups), dtype=cupy.float64)
    _moments_kernel()(X, *X.shape, n_groups, parts, size=n_groups * X.shape[1])
    return along_rows(cupy.sum, parts, namespace(X)).get()


def _closeness_on_gpu(X, centres, labels, weight):
    import cupy

    n_groups = _n_groups(X)
    n_warps = -(-n_groups * X.shape[1] // WARP)
    # A sum of each warp, and a 1 for each centre that has rows: one copy to CPU memory.
    parts = cupy.zeros(n_warps + centres.shape[0], dtype=cupy.float64)
    # One number serves all: a step of 0 repeats it.
    step = int(weight is not None)
    weight = X if weight is None else weight
    sizes = (*X.shape, n_groups, step, n_warps)
    _closeness_kernel()(X, centres, labels, weight, *sizes, parts, size=n_warps * WARP)
    found = parts.get()
    return Closeness(float(found[:n_warps].sum()), int(found[n_warps:].sum()))


def _n_groups(X):
    """Groups of rows that are added up side by side; a thread has one column of one of them."""
    return max(1, min(X.shape[0], MOST_THREADS // X.shape[1]))


@cache
def _moments_kernel():
    import cupy

    return cupy.ElementwiseKernel(
        "raw T x, int64 n_rows, int64 n_columns, int64 n_groups",
        "raw float64 parts",
        """
        const long long column = i % n_columns;
        const double origin = (double)x[column];
        double first = 0, second = 0;
        #pragma unroll 8
        for (long long row = i / n_columns; row < n_rows; row += n_groups) {
            const double by = (double)x[row * n_columns + column] - origin;
            first += by;
            second += by * by;
        }
        const long long part = column * n_groups + i / n_columns;
        parts[part] = first;
        parts[n_groups * n_columns + part] = second;
        // Of all groups one, so that their sum is the origin.
        parts[2 * n_groups * n_columns + part] = i < n_columns ? origin : 0.0;
        """,
        "gpuml_moments",
    )


@cache
def _closeness_kernel():
    import cupy

    return cupy.ElementwiseKernel(
        "raw T x, raw S centres, raw I labels, raw U weights, int64 n_rows, int64 n_columns, "
        "int64 n_groups, int64 weight_step, int64 n_warps",
        "raw float64 parts",
        """
        const long long n_threads = n_groups * n_columns;
        double total = 0;
        if (i < n_threads) {
            const long long column = i % n_columns;
            #pragma unroll 8
            for (long long row = i / n_columns; row < n_rows; row += n_groups) {
                const long long label = (long long)labels[row];
                const double by = (double)x[row * n_columns + column]
                    - (double)centres[label * n_columns + column];
                const double weight = weight_step ? (double)weights[row] : 1.0;
                total += weight * by * by;
            }
            // In no order: all write the same. Once that is seen nobody has to any more.
            for (long long row = i; row < n_rows; row += n_threads) {
                const long long found = n_warps + (long long)labels[row];
                if (parts[found] == 0) parts[found] = 1;
            }
        }
        // All threads of a warp are here: there are whole warps only.
        for (int by = 16; by > 0; by /= 2) total += __shfl_down_sync(0xffffffff, total, by);
        if (i % 32 == 0) parts[i / 32] = total;
        """,
        "gpuml_closeness",
    )
