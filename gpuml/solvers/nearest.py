"""The nearest rows on a GPU by Euclidean distance: of tiles of products each row keeps its best.

A product orders the squared distances of a tile. A block for each row reads them, and keeps the
least in shared memory, a few more than are wanted. Sums of squared differences, in float64, put
these in order. Products round, by tensor cores more than others: rows of which that may have hidden
a neighbour are searched again, by products of float64. So results are those of exact distances.
"""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array
from gpuml._arrays.gpus import C_NAMES

# Rows that are kept beyond those wanted, and the most of both.
SPARE, MOST_KEPT = 8, 512
# Of a tile: wide ones are sorted less often.
TILE_ROWS, TILE_BYTES = 4096, 2**28
THREADS, LOADS = 256, 4
# The least unit: the square of its inverse is finite.
SHORTEST = 1e-150

_SOURCE = r"""
typedef unsigned long long u64;
typedef long long i64;

// Keys have the order of distances, and that of rows where these are equal.
template <typename V> struct Kept;
template <> struct Kept<float> {
    typedef u64 Key;
    static __device__ Key of(float value, unsigned row) {
        const unsigned bits = __float_as_uint(value);
        return (Key)(bits ^ (bits >> 31 ? ~0u : 1u << 31)) << 32 | row;
    }
    static __device__ double value(Key key) {
        const unsigned bits = key >> 32;
        return __uint_as_float(bits ^ (bits >> 31 ? 1u << 31 : ~0u));
    }
};
template <> struct Kept<double> {
    typedef unsigned __int128 Key;
    static __device__ Key of(double value, unsigned row) {
        const u64 bits = __double_as_longlong(value);
        return (Key)(bits ^ (bits >> 63 ? ~0ull : 1ull << 63)) << 32 | row;
    }
    static __device__ double value(Key key) {
        const u64 bits = key >> 32;
        return __longlong_as_double(bits ^ (bits >> 63 ? 1ull << 63 : ~0ull));
    }
};

// Sort the first `count` keys; a power of two from there on has room.
template <typename Key> __device__ void sort(Key* keys, int count) {
    int n = 2;
    while (n < count) n *= 2;
    for (int i = count + threadIdx.x; i < n; i += THREADS) keys[i] = ~(Key)0;
    for (int size = 2; size <= n; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n / 2; i += THREADS) {
                const int low = 2 * stride * (i / stride) + i % stride, high = low + stride;
                const Key a = keys[low], b = keys[high];
                if ((a > b) == ((low & size) == 0)) { keys[low] = b; keys[high] = a; }
            }
        }
    }
    __syncthreads();
}

template <typename V> __global__ void __launch_bounds__(THREADS)
keep(const V* tile, int columns, unsigned first, int kept, typename Kept<V>::Key* best) {
    typedef typename Kept<V>::Key Key;
    constexpr int AT_ONCE = THREADS * LOADS;
    __shared__ Key keys[MOST_KEPT + 3 * AT_ONCE / 2];
    __shared__ int shared_count;
    tile += (i64)blockIdx.x * columns;
    best += (i64)blockIdx.x * kept;
    for (int i = threadIdx.x; i < kept; i += THREADS) keys[i] = best[i];
    if (threadIdx.x == 0) shared_count = kept;
    __syncthreads();
    Key bound = keys[kept - 1];
    if (bound == ~(Key)0 && kept <= THREADS) {
        // Before anything is known: so many threads have seen a key that is no larger.
        Key least = ~(Key)0;
        for (int column = threadIdx.x; column < columns; column += THREADS)
            {
            const Key key = Kept<V>::of(tile[column], first + column);
            least = key < least ? key : least;
        }
        keys[kept + threadIdx.x] = least;
        __syncthreads();
        sort(keys + kept, THREADS);
        bound = keys[kept + kept - 1];
        bound += bound != ~(Key)0;
        __syncthreads();
    }
    int count = kept;
    for (int start = 0; start < columns; start += AT_ONCE) {
        V values[LOADS];
        #pragma unroll
        for (int j = 0; j < LOADS; ++j) {
            const int column = start + j * THREADS + threadIdx.x;
            values[j] = column < columns ? tile[column] : 0;
        }
        #pragma unroll
        for (int j = 0; j < LOADS; ++j) {
            const int column = start + j * THREADS + threadIdx.x;
            const Key key = Kept<V>::of(values[j], first + column);
            if (column < columns && key < bound) keys[atomicAdd(&shared_count, 1)] = key;
        }
        __syncthreads();
        count = shared_count;
        __syncthreads();
        if (count > MOST_KEPT + AT_ONCE / 2) {
            sort(keys, count);
            bound = keys[kept - 1];
            count = kept;
            if (threadIdx.x == 0) shared_count = kept;
            __syncthreads();
        }
    }
    if (count > kept) sort(keys, count);
    for (int i = threadIdx.x; i < kept; i += THREADS) best[i] = keys[i];
}

// Exact distances of the rows kept, of which the k least are written in order; and whether a row
// that was not kept may be nearer. Its product is at least `last`, the largest kept, and is off by
// at most `error * (|t|^2 + 2 |x| |t|)`, and by `lost` below the numbers of its dtype.
template <typename V, typename T> __global__ void __launch_bounds__(THREADS)
order(const T* train, const T* X, int p, const typename Kept<V>::Key* best, int kept, int k,
      const double* lengths, double squared_unit, double error, double lost, T* distances,
      i64* rows, bool* doubtful) {
    __shared__ double squares[MOST_KEPT];
    __shared__ unsigned found[MOST_KEPT];
    const i64 own = blockIdx.x;
    X += own * p;
    best += own * kept;
    const int lane = threadIdx.x % 32;
    for (int j = threadIdx.x / 32; j < kept; j += THREADS / 32) {
        const unsigned row = (unsigned)best[j];
        double sum = 0;
        for (int f = lane; f < p; f += 32) {
            const double difference = (double)X[f] - (double)train[(i64)row * p + f];
            sum += difference * difference;
        }
        for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(~0u, sum, half);
        if (lane == 0) { squares[j] = sum; found[j] = row; }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kept; j += THREADS) {
        int rank = 0;
        for (int i = 0; i < kept; ++i)
            rank += squares[i] < squares[j] || (squares[i] == squares[j] && found[i] < found[j]);
        if (rank >= k) continue;
        distances[own * k + rank] = (T)sqrt(squares[j]);
        rows[own * k + rank] = found[j];
        if (rank == k - 1) {
            const double last = Kept<V>::value(best[kept - 1]) + lengths[own];
            const double least = last * (1 - 4 * error) - 16 * error * lengths[own] - lost;
            doubtful[own] = !(squares[j] * squared_unit < least);
        }
    }
}
"""


@cache
def _kernels(device: int, products: str, dtype: str) -> tuple[Any, Any]:
    """Of a GPU, for products of one dtype and rows of another."""
    import cupy

    sizes = {"THREADS": THREADS, "LOADS": LOADS, "MOST_KEPT": MOST_KEPT}
    defined = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    value = C_NAMES[products]
    names = [f"keep<{value}>", f"order<{value}, {C_NAMES[dtype]}>"]
    options = ("--std=c++14", "--device-int128")
    module = cupy.RawModule(code=defined + _SOURCE, options=options, name_expressions=names)
    keep, order = (module.get_function(name) for name in names)
    return keep, order


def nearest(train: Array, X: Array, k: int) -> tuple[Array, Array] | None:
    """Distances (m, k) of the k nearest training rows of each row of X, and their numbers (m, k).

    Both are dense CuPy arrays. Of rows at the same distance the first come first. None if there
    are more neighbours than a block keeps, or values that are not finite.
    """
    import cupy

    dtype = np.float32 if train.dtype == X.dtype == np.float32 else np.float64
    train, X = (cupy.ascontiguousarray(each, dtype=dtype) for each in (train, X))
    if min(k + SPARE, len(train)) > MOST_KEPT or 0 in X.shape:
        return None
    frame = _frame(train, X)
    if frame is None:
        return None
    distances, found, doubtful = _searched(train, X, k, frame, OF_SINGLES)
    again = cupy.flatnonzero(doubtful)
    if len(again):
        exact = _searched(train, X[again], k, frame, OF_DOUBLES)
        distances[again], found[again], _ = exact
    return distances, found


def _frame(train, X):
    """A centre (p,) of the rows, and a unit in which no value is larger than 1; None if not finite.

    The centre is the median of some rows: far ones do not move it away from all others, whose
    products would lose digits.
    """
    import cupy

    centre = cupy.median(train[:: len(train) // 1024 + 1], axis=0).astype(np.float64)
    ends = [(cupy.max(each, axis=0), cupy.min(each, axis=0)) for each in (train, X)]
    beyond = [cupy.maximum(most - centre, centre - least) for most, least in ends]
    largest = float(cupy.max(cupy.maximum(*beyond)))
    return (centre, 1.0 / max(largest, SHORTEST)) if np.isfinite(largest) else None


def _searched(train, X, k, frame, products):
    """Distances, numbers, and whether a row may lack a neighbour by the rounding of products."""
    import cupy

    (m, p), n = X.shape, len(train)
    kept = min(k + SPARE, n)
    keep, order = _kernels(train.device.id, products.dtype, train.dtype.name)
    # A key takes twice as much as a product; all bits set are larger than any.
    size = np.dtype(products.dtype).itemsize
    best = cupy.full((m, kept * 2 * size), 255, dtype=np.uint8)
    lengths = cupy.empty(m, dtype=np.float64)
    rows = min(TILE_ROWS, m)
    # Of many features fewer rows are an operand.
    columns = min(TILE_BYTES // (rows * size), max(THREADS * LOADS, TILE_BYTES // (32 * p)), n)
    space = cupy.empty(rows * columns, dtype=products.dtype)
    for some in _blocks(m, p, rows):
        left, lengths[some] = _operand(X[some], frame, products.left)
        for others in _blocks(n, p, columns):
            right, _ = _operand(train[others], frame, products.right)
            for start, first in product(range(0, len(left), rows), range(0, len(right), columns)):
                own, their = left[start : start + rows], right[first : first + columns]
                tile = space[: len(own) * len(their)].reshape(len(own), len(their))
                products.multiply(own, their, tile)
                of_own = best[some][start : start + rows]
                sizes = np.int32(len(their)), np.uint32(others.start + first), np.int32(kept)
                keep((len(own),), (THREADS,), (tile, *sizes, of_own))
    distances = cupy.empty((m, k), dtype=train.dtype)
    found = cupy.empty((m, k), dtype=np.int64)
    doubtful = cupy.empty(m, dtype=bool)
    wanted = np.int32(p), best, np.int32(kept), np.int32(k)
    bounds = frame[1] ** 2, (p + 8) * products.rounding, (p + 8) * products.least
    given = train, X, *wanted, lengths, *map(np.float64, bounds)
    order((m,), (THREADS,), (*given, distances, found, doubtful))
    if kept == n:
        doubtful[:] = False
    return distances, found, doubtful


def _blocks(n, p, tile):
    """Slices of n rows of which operands are made together: of tiles, but of no more bytes."""
    size = tile * max(1, TILE_BYTES // (32 * p * tile))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _operand(rows, frame, make):
    """What `make` makes of some rows in their frame, and their squared lengths."""
    import cupy

    centre, unit = frame
    scaled = (rows - centre) * unit
    lengths = cupy.sum(cupy.square(scaled), axis=1)
    return make(scaled, lengths), lengths


def _left_doubles(x, lengths):
    """Of products ``|t|^2 - 2 x't`` in float64."""
    return _beside([-2.0 * x, 1.0], np.float64)


def _right_doubles(t, lengths):
    return _beside([t, lengths], np.float64)


def _multiply(left, right, out):
    import cupy

    cupy.matmul(left, right.T, out=out)


def _left_singles(x, lengths):
    """Of the same by tensor cores, which read 11 bits of a float32: a number is the sum of two.

    The product of both second ones is left out.
    """
    first, second = _parts(-2.0 * x, 2)
    return _beside([first, first, second, 1.0, 1.0, 1.0], np.float32)


def _right_singles(t, lengths):
    first, second = _parts(t, 2)
    return _beside([first, second, first, *_parts(lengths, 3)], np.float32)


def _multiply_on_tensor_cores(left, right, out):
    from cupy.cuda import cublas, device, runtime

    (m, p), n, real = left.shape, len(right), runtime.CUDA_R_32F
    one, zero = np.ones((), np.float32), np.zeros((), np.float32)
    # cuBLAS counts columns first, so that it multiplies the transposes.
    cublas.gemmEx(
        device.get_cublas_handle(),
        *(cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, n, m, p, one.ctypes.data),
        *(right.data.ptr, real, p, left.data.ptr, real, p, zero.ctypes.data),
        *(out.data.ptr, real, n, cublas.CUBLAS_COMPUTE_32F_FAST_TF32, -1),
    )


class _Products(NamedTuple):
    """How products are computed that order distances.

    Attributes
    ----------
    dtype : str
    left, right, multiply : callable
        Operands of rows, and of training rows; their product.
    rounding, least : float
        A product of p features is off by at most ``(p + 8) * rounding`` times all that is added,
        and by ``(p + 8) * least`` if numbers are too small for the dtype.
    """

    dtype: str
    left: Callable[[Array, Array], Array]
    right: Callable[[Array, Array], Array]
    multiply: Callable[[Array, Array, Array], None]
    rounding: float
    least: float


OF_SINGLES = _Products(
    "float32", _left_singles, _right_singles, _multiply_on_tensor_cores, 2.0**-22, 2.0**-122
)
OF_DOUBLES = _Products("float64", _left_doubles, _right_doubles, _multiply, 2.0**-53, 2.0**-1018)


def _beside(columns, dtype):
    """Vectors and matrices of columns side by side; rows begin at multiples of 16 bytes."""
    import cupy

    n_rows = len(columns[0])
    widths = [each.shape[1] if getattr(each, "ndim", 0) == 2 else 1 for each in columns]
    out = cupy.zeros((n_rows, -(-sum(widths) // 4) * 4), dtype=dtype)
    for last, width, values in zip(np.cumsum(widths), widths, columns, strict=True):
        two = getattr(values, "ndim", 0) == 1
        out[:, last - width : last] = values[:, None] if two else values
    return out


def _parts(values, count):
    """Arrays of float32 with 11 bits each, whose sum is `values`, rounded."""
    found = []
    for _ in range(count):
        bits = values.astype(np.float32).view(np.int32)
        found.append(((bits + 0x1000) & ~0x1FFF).view(np.float32))
        values = values - found[-1]
    return found
