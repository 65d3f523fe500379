"""CUDA kernels of the seeds of k-means: distances from drawn rows, and rows where they come to."""

from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array

# Threads of a block, the fewest rows that it sums, and the most such pieces of all rows.
THREADS, LEAST_PIECE, MOST_PIECES = 256, 2048, 1024

_SOURCE = """
typedef long long i64;

// Squared distances (runs, trials, n) of rows from the drawn ones, from products with these, or
// from the nearest seed so far, `nearest` (runs, n), if that is nearer; and their sums by weight,
// of each piece of rows.
extern "C" __global__ void __launch_bounds__(THREADS)
nearer(const T* products, const double* of_drawn, const double* lengths, const double* nearest,
       const double* weight, i64 n, int n_trials, i64 piece, int n_pieces, double* squares,
       double* parts) {
    __shared__ double sums[THREADS];
    const i64 j = blockIdx.x / n_pieces, begin = blockIdx.x % n_pieces * piece;
    const i64 end = begin + piece < n ? begin + piece : n;
    const double of_row = of_drawn[j];
    products += j * n, squares += j * n;
    if (nearest) nearest += j / n_trials * n;
    double sum = 0;
    for (i64 i = begin + threadIdx.x; i < end; i += THREADS) {
        double square = -2.0 * products[i] + of_row + lengths[i];
        if (square < 0) square = 0;
        if (nearest && nearest[i] < square) square = nearest[i];
        squares[i] = square, sum += weight ? weight[i] * square : square;
    }
    sums[threadIdx.x] = sum;
    for (int other = THREADS / 2; other; other /= 2) {
        __syncthreads();
        if (threadIdx.x < other) sums[threadIdx.x] += sums[threadIdx.x + other];
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = sums[0];
}

// The first row of each run whose cumulated distance (runs, n) comes to each of `m` goals.
extern "C" __global__ void drawn(const double* cumulated, const double* goals, i64 n, int n_trials,
                                 int m, i64* numbers) {
    const i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (j >= m) return;
    cumulated += j / n_trials * n;
    i64 low = 0, high = n - 1;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (cumulated[middle] < goals[j]) low = middle + 1;
        else high = middle;
    }
    numbers[j] = low;
}
"""


def nearer(
    X: Array, numbers: Array, lengths: Array, nearest: Array | None, weight: Array | None
) -> tuple[Array, Array]:
    """Squared distances (R, t, n) of rows from t drawn ones of each run, and their sums (R, t).

    Parameters
    ----------
    X : CuPy array (n, p)
    numbers : CuPy int64 array (R, t)
        Of the rows that were drawn.
    lengths : CuPy array (n,)
        Squared lengths of the rows, float64.
    nearest : CuPy array (R, n) or None
        Squared distances from the nearest seed so far: what is not nearer to a drawn row counts
        with these.
    weight : CuPy array (n,) or None
        Of the rows in the sums, float64.
    """
    import cupy

    (n_runs, n_trials), n_rows = numbers.shape, X.shape[0]
    flat = numbers.reshape(-1)
    products = cupy.ascontiguousarray(X.take(flat, axis=0) @ X.T)
    piece = max(LEAST_PIECE, -(-n_rows // MOST_PIECES))
    n_pieces = -(-n_rows // piece)
    squares = cupy.empty((n_runs, n_trials, n_rows))
    parts = cupy.empty((n_runs, n_trials, n_pieces))
    none = np.uintp(0)
    state = (none if nearest is None else nearest, none if weight is None else weight)
    sizes = (np.int64(n_rows), np.int32(n_trials), np.int64(piece), np.int32(n_pieces))
    given = (products, lengths.take(flat), lengths, *state, *sizes)
    _kernels(X.dtype.name)("nearer")((parts.size,), (THREADS,), (*given, squares, parts))
    return squares, parts.sum(axis=2)


def drawn(cumulated: Array, goals: Array) -> Array:
    """Rows (R, t) where cumulated distances (R, n), contiguous, come to the goals (R, t)."""
    import cupy

    numbers = cupy.empty(goals.shape, dtype=np.int64)
    sizes = (np.int64(cumulated.shape[1]), np.int32(goals.shape[1]), np.int32(goals.size))
    given = (cumulated, cupy.ascontiguousarray(goals), *sizes, numbers)
    _kernels("float64")("drawn")((-(-goals.size // THREADS),), (THREADS,), given)
    return numbers


@cache
def source(dtype: str) -> str:
    """The kernels of rows of a dtype."""
    kind = {"float32": "float", "float64": "double"}[dtype]
    return f"typedef {kind} T;\n#define THREADS {THREADS}\n{_SOURCE}"


@cache
def _kernels(dtype: str) -> Any:
    """What has a kernel for each name."""
    import cupy

    return cupy.RawModule(code=source(dtype), options=("--std=c++17",)).get_function
