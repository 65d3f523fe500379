"""CUDA kernels for products with small codes, without one-hot columns.

Both kernels have one model in each lane of a warp, so that all lanes read the code of one row, and
the coefficients or sums of that code are adjacent. Sums by code are in the shared memory of a block
if there are few levels, with one warp per column of codes, so that no two threads add to the same
number; columns with many levels use global memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from gpuml._arrays import Array, gpus
from gpuml._arrays.gpus import C_NAMES, FLOATS

# Models per warp, and rows per tile.
WARP, TILE = 32, 32
# Warps of a gathering block, and of a summing one: at least enough to read a tile.
GATHERING, FEWEST, MOST = 4, 4, 16
# Limit of the shared memory of a block, part of which holds tiles; and the bytes of a slot.
SHARED_BYTES, SLOT_BYTES = 96 * 1024, 8 * WARP
TILE_BYTES = 8 * TILE * (WARP + 1)
# Blocks per multiprocessor.
BLOCKS = 4

_SOURCE = """
typedef long long i64;
typedef unsigned long long u64;

// Where codes are, how wide each is (negative: signed), and how many levels there are.
struct Codes { u64 at; int width; int levels; };

__device__ inline i64 code_of(const Codes c, i64 i) {
    switch (c.width) {
        case 1: return ((const unsigned char*)c.at)[i];
        case 2: return ((const unsigned short*)c.at)[i];
        case 4: return ((const unsigned int*)c.at)[i];
        case -1: return ((const signed char*)c.at)[i];
        case -2: return ((const short*)c.at)[i];
        case -4: return ((const int*)c.at)[i];
        default: return ((const i64*)c.at)[i];
    }
}

// A column of codes, or of pairs of two, which have a slot for rows without a level too; where its
// slots begin among all, and in shared memory (negative: they are not there).
struct Column { Codes one; Codes two; i64 first; int shared; int slots; };

// The slot of a row in its column; negative for none.
__device__ inline int slot_of(const Column& c, i64 i) {
    const i64 one = code_of(c.one, i);
    if (c.two.width == 0) return (int)one;
    const i64 two = code_of(c.two, i), width = c.two.levels + 1;
    return (int)((one < 0 ? c.one.levels : one) * width + (two < 0 ? width - 1 : two));
}

// Adds, to margins (models, n) or to nothing, what a table (slots, stride) has for each row.
template <typename T>
__global__ void gather(const T* __restrict__ table, const Column* columns, int d, int stride,
                       int models, i64 first_row, i64 n, int onto, T* margins) {
    __shared__ T tiles[GATHERING][TILE][WARP + 1];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, m = blockIdx.y * WARP;
    const i64 r = ((i64)blockIdx.x * GATHERING + warp) * TILE;
    if (r >= n) return;
    const bool inside = r + lane < n;
    T total[TILE];
    #pragma unroll
    for (int k = 0; k < TILE; ++k) total[k] = 0;
    const T* own = table + m + lane;
    for (int j = 0; j < d; ++j) {
        const int slot = inside ? slot_of(columns[j], first_row + r + lane) : -1;
        const i64 first = columns[j].first;
        #pragma unroll
        for (int k = 0; k < TILE; ++k) {
            const int its = __shfl_sync(0xffffffffu, slot, k);
            if (its >= 0) total[k] += own[(first + its) * stride];
        }
    }
    T (*tile)[WARP + 1] = tiles[warp];
    #pragma unroll
    for (int k = 0; k < TILE; ++k) tile[k][lane] = total[k];
    __syncwarp();
    if (!inside) return;
    const int some = min(WARP, models - m);
    T* to = margins + (i64)m * n + r + lane;
    for (int q = 0; q < some; ++q, to += n) *to = onto ? *to + tile[lane][q] : tile[lane][q];
}

// Adds values (models, n) up by the slots of their rows, to sums (slots, models).
template <typename T>
__global__ void scatter(const T* __restrict__ values, const Column* columns, int d, int models,
                        i64 first_row, i64 n, double* out) {
    extern __shared__ double sums[];
    __shared__ T tile[TILE][WARP + 1];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int m = blockIdx.y * WARP;
    const bool used = m + lane < models;
    for (int j = warp; j < d; j += warps) {
        if (columns[j].shared < 0) continue;
        double* sum = sums + columns[j].shared * WARP + lane;
        for (int k = 0; k <= columns[j].slots; ++k) sum[k * WARP] = 0;
    }
    for (i64 r = (i64)blockIdx.x * TILE; r < n; r += (i64)gridDim.x * TILE) {
        __syncthreads();
        for (int q = warp; q < WARP; q += warps) {
            const bool is_there = m + q < models && r + lane < n;
            tile[lane][q] = is_there ? values[(i64)(m + q) * n + r + lane] : T(0);
        }
        __syncthreads();
        for (int j = warp; j < d; j += warps) {
            const int slots = columns[j].slots;
            int own = r + lane < n ? slot_of(columns[j], first_row + r + lane) : -1;
            if (columns[j].shared < 0) {
                double* sum = out + columns[j].first * models + m + lane;
                #pragma unroll 4
                for (int k = 0; k < TILE; ++k) {
                    const int slot = __shfl_sync(0xffffffffu, own, k);
                    if (slot < 0 || !used) continue;
                    atomicAdd(sum + (i64)slot * models, (double)tile[k][lane]);
                }
                continue;
            }
            // Rows without a level have a slot behind the others, which nobody reads.
            own = own < 0 ? slots : own;
            double* sum = sums + columns[j].shared * WARP + lane;
            // Four rows at a time do not wait for each other, but where their codes are the same.
            #pragma unroll 2
            for (int k = 0; k < TILE; k += 4) {
                const int a = __shfl_sync(0xffffffffu, own, k);
                const int b = __shfl_sync(0xffffffffu, own, k + 1);
                const int c = __shfl_sync(0xffffffffu, own, k + 2);
                const int e = __shfl_sync(0xffffffffu, own, k + 3);
                double at_a = sum[a * WARP], at_b = sum[b * WARP];
                double at_c = sum[c * WARP], at_e = sum[e * WARP];
                at_a += (double)tile[k][lane];
                at_b = (b == a ? at_a : at_b) + (double)tile[k + 1][lane];
                at_c = (c == b ? at_b : c == a ? at_a : at_c) + (double)tile[k + 2][lane];
                at_e = (e == c ? at_c : e == b ? at_b : e == a ? at_a : at_e)
                       + (double)tile[k + 3][lane];
                sum[a * WARP] = at_a;
                sum[b * WARP] = at_b;
                sum[c * WARP] = at_c;
                sum[e * WARP] = at_e;
            }
        }
    }
    if (!used) return;
    for (int j = warp; j < d; j += warps) {
        if (columns[j].shared < 0) continue;
        const double* sum = sums + columns[j].shared * WARP + lane;
        double* to = out + columns[j].first * models + m + lane;
        for (int k = 0; k < columns[j].slots; ++k, to += models)
            if (sum[k * WARP] != 0) atomicAdd(to, sum[k * WARP]);
    }
}
"""
_COLUMN = np.dtype(
    [
        *(("at", np.uint64), ("width", np.int32), ("levels", np.int32)),
        *(("at2", np.uint64), ("width2", np.int32), ("levels2", np.int32)),
        *(("first", np.int64), ("shared", np.int32), ("slots", np.int32)),
    ],
    align=True,
)


@cache
def _kernels() -> Any:
    import cupy

    names = [f"{name}<{C_NAMES[own]}>" for name in ("gather", "scatter") for own in FLOATS]
    sizes = f"#define GATHERING {GATHERING}\n#define WARP {WARP}\n#define TILE {TILE}\n"
    options = ("--std=c++14",)
    return cupy.RawModule(code=sizes + _SOURCE, options=options, name_expressions=names)


def _kernel(name, dtype):
    import cupy

    return _kernel_of(name, dtype, cupy.cuda.Device().id)


@cache
def _kernel_of(name: str, dtype: str, device: int) -> Any:
    """A kernel of the current GPU: each is told how much shared memory its own may use."""
    found = _kernels().get_function(f"{name}<{C_NAMES[dtype]}>")
    if name == "scatter":
        found.max_dynamic_shared_size_bytes = _shared_bytes()
    return found


def _shared_bytes():
    """Bytes of a block's shared memory that sums may use."""
    return min(SHARED_BYTES, _facts()["sharedMemPerBlockOptin"]) - TILE_BYTES


def _facts():
    """Properties of the current GPU."""
    import cupy

    return gpus.properties(cupy.cuda.Device().id)


@dataclass(frozen=True)
class Slots:
    """Columns of slots: of codes (n,) and their number of levels, or of pairs of such.

    A column of codes has a slot for each level. One of pairs has one for each two, with another
    level for rows that have none.

    Attributes
    ----------
    columns : tuple of tuples of (codes, number of levels)
    firsts : tuple of int
        Where the slots of each column begin.
    """

    columns: tuple[tuple[tuple[Array, int], ...], ...]
    firsts: tuple[int, ...]

    @classmethod
    def of(cls, *columns: Sequence[tuple[Array, int]], firsts: Sequence[int] = ()) -> "Slots":
        """From CuPy arrays, side by side unless `firsts` says where the columns begin."""
        import cupy

        known = tuple(
            tuple((cupy.ascontiguousarray(codes), n) for codes, n in each) for each in columns
        )
        starts = firsts or accumulate(map(_n_slots, known[:-1]), initial=0)
        return cls(known, tuple(starts))

    @cached_property
    def _shared(self) -> tuple[list[int], int]:
        """Where columns begin in shared memory, or -1 if there is no room, and the number of slots.

        The smallest columns come first.
        """
        found, held = [-1] * len(self.columns), 0
        for number in sorted(range(len(self.columns)), key=lambda n: _n_slots(self.columns[n])):
            size = _n_slots(self.columns[number]) + 1
            if (held + size) * SLOT_BYTES > _shared_bytes():
                break
            found[number], held = held, held + size
        return found, held

    @cached_property
    def _records(self) -> Any:
        """The description of the columns for kernels, on the device."""
        import cupy

        found, (shared, _) = np.zeros(len(self.columns), dtype=_COLUMN), self._shared
        for number, (record, column) in enumerate(zip(found, self.columns, strict=True)):
            for suffix, (codes, n_levels) in zip(("", "2"), column, strict=False):
                signed = codes.dtype.kind == "i"
                record[f"at{suffix}"] = codes.data.ptr
                record[f"width{suffix}"] = -codes.dtype.itemsize if signed else codes.dtype.itemsize
                record[f"levels{suffix}"] = n_levels
            record["first"], record["shared"] = self.firsts[number], shared[number]
            record["slots"] = _n_slots(column)
        return cupy.asarray(found.view(np.uint8))

    def gathered(self, coef: Array, first: int, n: int, margins: Array | None = None) -> Array:
        """Sums (M, n), over columns, of the coefficients (M, slots) of n rows from row `first` on.

        The sums are added to `margins` (M, n), if given.
        """
        import cupy

        models = coef.shape[0]
        stride = -(-models // WARP) * WARP
        table = cupy.zeros((coef.shape[1], stride), dtype=coef.dtype)
        table[:, :models] = coef.T
        onto = margins is not None
        out = cupy.ascontiguousarray(margins) if onto else cupy.empty((models, n), coef.dtype)
        sizes = (np.int32(len(self.columns)), np.int32(stride), np.int32(models))
        rows = (np.int64(first), np.int64(n), np.int32(onto))
        grid = (-(-n // (TILE * GATHERING)), stride // WARP)
        if n:
            kernel = _kernel("gather", str(coef.dtype))
            kernel(grid, (WARP * GATHERING,), (table, self._records, *sizes, *rows, out))
        return out

    def add_sums(self, out: Array, values: Array, first: int = 0) -> None:
        """Add values (M, n) of rows from `first` on by slot, to `out` (slots, M) of float64."""
        import cupy

        values = cupy.ascontiguousarray(values)
        models, n = values.shape
        if n == 0:
            return
        warps = min(max(len(self.columns), FEWEST), MOST)
        sizes = (np.int32(len(self.columns)), np.int32(models), np.int64(first), np.int64(n))
        _kernel("scatter", str(values.dtype))(
            (_blocks(n), -(-models // WARP)),
            (WARP * warps,),
            (values, self._records, *sizes, out),
            shared_mem=self._shared[1] * SLOT_BYTES,
        )


def _n_slots(column):
    """The number of slots of a column; a pair includes slots for rows without a level."""
    sizes = [n_levels for _, n_levels in column]
    return sizes[0] if len(sizes) == 1 else int(np.prod([size + 1 for size in sizes]))


def _blocks(n):
    return max(1, min(-(-n // TILE), BLOCKS * _facts()["multiProcessorCount"]))
