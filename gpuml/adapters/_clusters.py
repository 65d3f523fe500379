"""Sums over the rows of clusters, in passes that use all of a GPU.

A reduction along the rows of a matrix has few results, and CuPy gives a few of them to one block of
threads: most of a GPU then waits. Here rows are cut into groups that are summed side by side.
"""

from functools import cache

from gpuml._arrays import Array, namespace
from gpuml._ops import along_rows

# Rows that are summed one after the other, at least; and groups of them, at most.
LEAST_ROWS = 16
MOST_GROUPS = 2**14
# Threads that share a row: neighbours of them read what is side by side in memory.
THREADS_OF_ROW = 32


def by_rows(X: Array) -> Array:
    """The same matrix with rows that are each in one piece, which is what the sums here read."""
    if not type(X).__module__.startswith("cupy"):
        return X
    import cupy

    return cupy.ascontiguousarray(X)


def squared_distances(
    X: Array, centres: Array, labels: Array | None = None, weight: Array | None = None
) -> float:
    """Sum of weighted squared distances of rows to their centres.

    Differences, unlike products of rows and centres, lose no digits. Sums are float64.

    Parameters
    ----------
    X : array (n, p)
    centres : array (k, p)
        In the library and on the device of X.
    labels : int array (n,) or None
        The centre of each row. None: all have the first.
    weight : array (n,) or None
    """
    xp = namespace(X)
    if type(X).__module__.startswith("cupy"):
        return float(along_rows(xp.sum, _parts(X, centres, labels, weight), xp))
    near = centres[:1, :] if labels is None else xp.take(centres, labels, axis=0)
    squared = xp.sum(xp.astype(X - near, xp.float64) ** 2, axis=1)
    return float(xp.sum(squared if weight is None else squared * weight))


def n_distinct(labels: Array, n_clusters: int) -> int:
    """How many of the labels 0, 1, ... there are."""
    xp = namespace(labels)
    if not type(labels).__module__.startswith("cupy"):
        return xp.unique_values(labels).shape[0]
    seen = xp.zeros((n_clusters,), dtype=xp.int32)
    seen[labels] = 1  # in no order: all write the same
    return int(xp.sum(seen))


def _parts(X, centres, labels, weight):
    """Sums of groups of rows, a thread's columns in each."""
    import cupy

    n_rows, n_columns = X.shape
    rows = max(LEAST_ROWS, -(-n_rows // MOST_GROUPS))
    parts = cupy.empty(-(-n_rows // rows) * THREADS_OF_ROW, dtype=cupy.float64)
    # One number stands for as many: a step of 0 stays at it.
    label_step, weight_step = int(labels is not None), int(weight is not None)
    labels = cupy.zeros(1, dtype=cupy.int32) if labels is None else labels
    weight = cupy.ones(1, dtype=X.dtype) if weight is None else weight
    sizes = (n_rows, n_columns, rows, THREADS_OF_ROW, label_step, weight_step)
    _kernel()(X, centres, labels, weight, *sizes, parts, size=parts.size)
    return parts


@cache
def _kernel():
    import cupy

    return cupy.ElementwiseKernel(
        "raw T x, raw S centres, raw I labels, raw U weights, int64 n_rows, int64 n_columns, "
        "int64 rows, int64 threads, int64 label_step, int64 weight_step",
        "raw float64 parts",
        """
        const long long begin = i / threads * rows;
        const long long end = min((long long)(begin + rows), (long long)n_rows);
        double total = 0;
        for (long long row = begin; row < end; ++row) {
            const long long centre = (long long)labels[row * label_step] * n_columns;
            double sum = 0;
            for (long long j = i % threads; j < n_columns; j += threads) {
                const double by = (double)x[row * n_columns + j] - (double)centres[centre + j];
                sum += by * by;
            }
            total += (double)weights[row * weight_step] * sum;
        }
        parts[i] = total;
        """,
        "gpuml_squared_distances",
    )
