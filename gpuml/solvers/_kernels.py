"""CUDA kernels of passes over rows: weighted slopes of a loss and their sums, and what is around.

One kernel reads the margins once, or twice for many classes, and writes slopes in their place. It
sums them too, as gradients of intercepts are sums of slopes: for each warp one sum, which
`add_sums` adds up in a fixed order. Plain operations of arrays would be a dozen launches.
"""

from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array
from gpuml._arrays.gpus import C_NAMES, elementwise, properties
from gpuml.losses import Loss

THREADS, WARP = 256, 32
# Rows of each thread, which are so far apart as there are threads.
ROWS_OF_ONE, ROWS_OF_FEW = 8, 4
# Classes up to which a thread keeps the margins of a row in its registers, and how many of more it
# reads at a time.
MOST_IN_REGISTERS, CHUNK = 32, 8


def has_kernel(loss: Loss) -> bool:
    """Whether slopes of a loss come from one kernel; plain operations of arrays make many."""
    return loss.coupled or loss.cuda is not None


_AROUND = """
typedef long long i64;

// Adds up a number of each lane, and has lane 0 write it down.
__device__ inline void to_sum(T value, T* sum) {
    for (int other = 16; other; other /= 2) value += __shfl_xor_sync(0xffffffffu, value, other);
    if (threadIdx.x % 32 == 0) *sum = value;
}

// The margins (models, k, n) become slopes; `sums` (models, k, n_sums) are those of each warp.
extern "C" __global__ void slopes(T* margins, const T* offsets, const Y* targets, i64 of_target,
                                  const W* weights, i64 of_weight, int k, int n_splits, i64 n,
                                  int n_tiles, T* sums) {
    const i64 model = blockIdx.x / n_tiles, tile = blockIdx.x % n_tiles;
    const Y* target = targets + model / n_splits * of_target;
    const W* weight = weights ? weights + model % n_splits * of_weight : nullptr;
    const i64 begin = tile * (ROWS * THREADS) + threadIdx.x;
    // From one class to the next.
    const i64 stride = n, sum_stride = (i64)n_tiles * (THREADS / 32);
    T* z = margins + model * k * stride;
    T* sum = sums + model * k * sum_stride + tile * (THREADS / 32) + threadIdx.x / 32;
    const T* offset = offsets + model * k;
    BODY
}
"""
_ONE_VECTOR = """
    T total = 0;
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const i64 i = begin + r * THREADS;
        if (i < n) {
            const T z_i = z[i] + offset[0];
            T slope;
            { const T z = z_i, y = target[i]; slope = (SLOPE); }
            slope *= weight ? T(weight[i]) : T(1);
            z[i] = slope;
            total += slope;
        }
    }
    to_sum(total, sum);
"""
# One thread per model and row. Margins are read once and written once.
_FEW_CLASSES = """
    T total_of[K];
    #pragma unroll
    for (int j = 0; j < K; ++j) total_of[j] = 0;
    #pragma unroll 1
    for (int r = 0; r < ROWS; ++r) {
        const i64 i = begin + r * THREADS;
        if (i >= n) break;
        T e[K];
        #pragma unroll
        for (int j = 0; j < K; ++j) e[j] = z[i + j * stride] + offset[j];
        T top = e[0];
        #pragma unroll
        for (int j = 1; j < K; ++j) top = max(top, e[j]);
        T total = 0;
        #pragma unroll
        for (int j = 0; j < K; ++j) {
            e[j] = exp(e[j] - top);
            total += e[j];
        }
        const T w = weight ? T(weight[i]) : T(1), scale = w / total;
        const int y = (int)target[i];
        #pragma unroll
        for (int j = 0; j < K; ++j) {
            const T slope = e[j] * scale - (j == y ? w : T(0));
            z[i + j * stride] = slope;
            total_of[j] += slope;
        }
    }
    #pragma unroll
    for (int j = 0; j < K; ++j) to_sum(total_of[j], sum + j * sum_stride);
"""
# Margins are read twice, K at a time, which do not wait for each other: an exponential more costs
# less than to write it down and to read it again.
_MANY_CLASSES = """
    const bool inside = begin < n;
    const i64 i = inside ? begin : n - 1;
    const T w = inside ? (weight ? T(weight[i]) : T(1)) : T(0);
    const int y = (int)target[i];
    T top = z[i] + offset[0], total = 0;
    for (int first = 0; first < k; first += K) {
        T v[K], most = top;
        #pragma unroll
        for (int j = 0; j < K; ++j) {
            v[j] = first + j < k ? z[i + (first + j) * stride] + offset[first + j] : top;
            most = max(most, v[j]);
        }
        total *= exp(top - most);
        #pragma unroll
        for (int j = 0; j < K; ++j) total += first + j < k ? exp(v[j] - most) : T(0);
        top = most;
    }
    const T scale = w / total;
    for (int first = 0; first < k; first += K) {
        T v[K];
        #pragma unroll
        for (int j = 0; j < K; ++j)
            v[j] = first + j < k ? z[i + (first + j) * stride] + offset[first + j] : top;
        #pragma unroll
        for (int j = 0; j < K; ++j) {
            if (first + j >= k) break;
            T slope = 0;  // what others write there meanwhile may be anything
            if (inside) {
                slope = exp(v[j] - top) * scale - (first + j == y ? w : T(0));
                z[i + (first + j) * stride] = slope;
            }
            to_sum(slope, sum + (first + j) * sum_stride);
        }
    }
"""
_SUMS = """
typedef long long i64;

// Adds products (models, p) and sums (models, n_sums) to totals (models, p + 1).
extern "C" __global__ void add_sums(double* totals, const P* products, const T* sums, int p,
                                    int n_sums) {
    const i64 m = blockIdx.x;
    double* total = totals + m * (p + 1);
    for (int j = threadIdx.x; j < p; j += blockDim.x) total[j] += products[m * p + j];
    double sum = 0;
    for (int j = threadIdx.x; j < n_sums; j += blockDim.x) sum += sums[m * n_sums + j];
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    __shared__ double of_warp[THREADS / 32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int w = 0; w < blockDim.x / 32; ++w) sum += of_warp[w];
        total[p] += sum;
    }
}
"""
# One block per matrix, whose lower triangle is in shared memory, row after row. A sweep of each
# row in turn leaves -1 times the inverse (Goodnight, "A tutorial on the SWEEP operator", 1979).
_SWEEPS = """
extern "C" __global__ void inverses(const double* matrices, double least, int n, double* found) {
    extern __shared__ double lower[];
    double* pivots = lower + n * (n + 1) / 2;
    const long long first = (long long)blockIdx.x * n * n;
    for (int i = threadIdx.y; i < n; i += blockDim.y)
        for (int j = threadIdx.x; j <= i; j += blockDim.x)
            lower[i * (i + 1) / 2 + j] = matrices[first + i * n + j];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int p = 0; p < n; ++p) {
        __syncthreads();
        for (int i = thread; i < n; i += blockDim.x * blockDim.y)
            pivots[i] = i < p ? lower[p * (p + 1) / 2 + i] : lower[i * (i + 1) / 2 + p];
        __syncthreads();
        const double one_over = 1.0 / max(pivots[p], least);
        for (int i = threadIdx.y; i < n; i += blockDim.y) {
            const double scaled = pivots[i] * one_over;
            double* row = lower + i * (i + 1) / 2;
            for (int j = threadIdx.x; j <= i; j += blockDim.x)
                row[j] = i == p ? (j == p ? -one_over : pivots[j] * one_over)
                                : (j == p ? scaled : row[j] - scaled * pivots[j]);
        }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < n; i += blockDim.y)
        for (int j = threadIdx.x; j < n; j += blockDim.x)
            found[first + i * n + j] = -lower[i < j ? j * (j + 1) / 2 + i : i * (i + 1) / 2 + j];
}
"""
# Threads that share the rows, and those that share the columns, of a matrix.
SIDE = 32


@cache
def _slopes(body: str, rows: int, k: int, slope: str, dtypes: tuple[Any, ...]) -> Any:
    """The kernel of margins, targets and weights of some dtypes."""
    import cupy

    types = "".join(
        f"typedef {C_NAMES[dtype.name]} {name};\n"
        for name, dtype in zip("TYW", dtypes, strict=True)
    )
    constants = {"THREADS": THREADS, "ROWS": rows, "K": k}
    defined = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    source = _AROUND.replace("BODY", body).replace("SLOPE", slope)
    return cupy.RawKernel(types + defined + source, "slopes")


@cache
def _add_sums(dtypes: tuple[Any, ...]) -> Any:
    import cupy

    types = "".join(
        f"typedef {C_NAMES[dtype.name]} {name};\n" for name, dtype in zip("PT", dtypes, strict=True)
    )
    return cupy.RawKernel(f"{types}#define THREADS {THREADS}\n{_SUMS}", "add_sums")


@cache
def _inverses() -> Any:
    import cupy

    return cupy.RawKernel(_SWEEPS, "inverses")


def _rows_in_line(a):
    """An array whose last axis is contiguous in memory."""
    import cupy

    return a if a.strides[-1] == a.itemsize else cupy.ascontiguousarray(a)


def weighted_slope(
    loss: Loss, z: Array, offset: Array, target: Array, weights: Array | None, shape: tuple
) -> tuple[Array, Array]:
    """Weight x slope of a loss that `has_kernel`, (C S k, b), and sums of it in parts.

    The vectors of a model are neighbours. The slopes are in the memory of `z` where they can be.
    The parts (C S k, t) add up to the sums over rows.

    Parameters
    ----------
    loss : Loss
    z : CuPy array (C S k, b)
        Margins without their offsets.
    offset : array (C S k, 1)
    target : array (b,) or (C, 1, b)
    weights : array (S, b) or None
    shape : (C, S, k)
    """
    import cupy

    n_candidates, n_splits, k = shape
    z, offset, target = (
        cupy.ascontiguousarray(z),
        cupy.ascontiguousarray(offset),
        _rows_in_line(target),
    )
    weights = None if weights is None else _rows_in_line(weights)
    n_models, n_rows = n_candidates * n_splits, z.shape[-1]
    body, rows, in_registers = _ONE_VECTOR, ROWS_OF_ONE, 1
    if loss.coupled:
        few = k <= MOST_IN_REGISTERS
        body, rows = (_FEW_CLASSES, ROWS_OF_FEW) if few else (_MANY_CLASSES, 1)
        in_registers = k if few else CHUNK
    dtypes = (z.dtype, target.dtype, z.dtype if weights is None else weights.dtype)
    kernel = _slopes(body, rows, in_registers, loss.cuda or "", dtypes)
    n_tiles = max(1, -(-n_rows // (rows * THREADS)))
    sums = cupy.empty((len(z), n_tiles * (THREADS // WARP)), dtype=z.dtype)
    of_target = 0 if target.ndim == 1 else target.strides[0] // target.itemsize
    of_weight = 0 if weights is None else weights.strides[0] // weights.itemsize
    if weights is None:
        weights = np.uintp(0)
    given = (z, offset, target, np.int64(of_target), weights, np.int64(of_weight))
    sizes = (np.int32(k), np.int32(n_splits), np.int64(n_rows))
    kernel((n_models * n_tiles,), (THREADS,), (*given, *sizes, np.int32(n_tiles), sums))
    return z, sums


def add_sums(total: Array, products: Array, sums: Array) -> None:
    """Add products (M, p), and what sums (M, t) add up to, to totals (M, p + 1), in place."""
    import cupy

    products = cupy.ascontiguousarray(products)
    kernel = _add_sums((products.dtype, sums.dtype))
    sizes = (np.int32(products.shape[1]), np.int32(sums.shape[1]))
    kernel((len(total),), (THREADS,), (total, products, sums, *sizes))


def vectors_of(W: Array, dtype: Any) -> tuple[Array, Array]:
    """Coefficients (C S k, p) and intercepts (C S k, 1) of models (C, S, k, p + 1), on CuPy."""
    import cupy

    n_models, p = W.size // W.shape[-1], W.shape[-1] - 1
    coef = cupy.empty((n_models, p), dtype=dtype)
    offset = cupy.empty((n_models, 1), dtype=dtype)
    kernel = elementwise(
        "float64 w, int64 p",
        "raw T coef, raw T offset",
        "const long long j = i % (p + 1), m = i / (p + 1);"
        "if (j < p) coef[m * p + j] = w; else offset[m] = w;",
        "gpuml_vectors",
    )
    kernel(W, p, coef, offset)
    return coef, offset


def penalised(sums: Array, total: Array, l2: Array, W: Array, used: Array) -> Array:
    """``(sums / total + l2 W) used``, in one launch, on CuPy."""
    kernel = elementwise(
        "float64 sum, float64 total, float64 l2, float64 w, float64 used",
        "float64 gradient",
        "gradient = (sum / total + l2 * w) * used",
        "gpuml_penalised_gradient",
    )
    return kernel(sums, total, l2, W, used)


def unit_diagonals(
    H: Array, used: Array, l2: Array, ridge: float, eye: Array, more: Array | float
) -> tuple[Array, Array]:
    """What `newton.unit_diagonal` returns, in three launches, on CuPy.

    Parameters
    ----------
    H : array (C, S, n, n)
    used, l2 : arrays that broadcast to (C, S, n)
    ridge : float
        Added to the diagonal, which is 1.
    eye : array (n, n)
    more : array (C, S, n, n) or 0.0
        Added to H before it is scaled.
    """
    import cupy

    diagonal = cupy.diagonal(H, axis1=-2, axis2=-1)
    scale = elementwise(
        "float64 h, float64 used, float64 l2",
        "float64 scale",
        "const double d = h * used + l2; scale = used / sqrt(d > 0 ? d : 1.0)",
        "gpuml_unit_scale",
    )(diagonal, used, l2)
    added = elementwise(
        "float64 h, float64 used, float64 l2, float64 scale, float64 ridge",
        "float64 added",
        "added = l2 * scale * scale + (h * used + l2 > 0 ? ridge : 1.0)",
        "gpuml_unit_added",
    )(diagonal, used, l2, scale, ridge)
    unit = elementwise(
        "float64 h, float64 more, float64 row, float64 column, float64 added, float64 one",
        "float64 unit",
        "unit = (h + more) * row * column + added * one",
        "gpuml_unit_diagonal",
    )(H, more, scale[..., :, None], scale[..., None, :], added[..., None], eye)
    return unit, scale


def scaled_by_kernel(matrices: Array, scale: Array) -> Array:
    """Matrices (..., n, n) with rows and columns multiplied by (..., n), in one launch, on CuPy."""
    kernel = elementwise(
        "float64 m, float64 row, float64 column",
        "float64 scaled",
        "scaled = m * row * column",
        "gpuml_scaled_matrices",
    )
    return kernel(matrices, scale[..., :, None], scale[..., None, :])


def has_room_for_inverses(n: int) -> bool:
    """Whether the GPU's blocks hold what `inverses_by_kernel` keeps of matrices (n, n)."""
    import cupy

    return _bytes_of_inverse(n) <= properties(cupy.cuda.Device().id)["sharedMemPerBlockOptin"]


def inverses_by_kernel(matrices: Array, least: float) -> Array:
    """Inverses of positive definite matrices (..., n, n), in one launch, on CuPy.

    No eigenvalue is below `least`, so that pivots that rounding takes below it are replaced by it.
    """
    import cupy

    matrices, n = cupy.ascontiguousarray(matrices), matrices.shape[-1]
    found, kernel = cupy.empty_like(matrices), _inverses()
    shared = _bytes_of_inverse(n)
    kernel.max_dynamic_shared_size_bytes = max(shared, kernel.max_dynamic_shared_size_bytes)
    given = (matrices, np.float64(least), np.int32(n), found)
    kernel((matrices.size // n**2,), (SIDE, SIDE), given, shared_mem=shared)
    return found


def _bytes_of_inverse(n):
    """Of the lower triangle, and of one more row."""
    return 8 * (n * (n + 1) // 2 + n)
