"""CUDA kernels for products with small codes: no indicator of a level is made.

Margins add up, for each row, the coefficients of its codes, some models side by side. Sums by code
are kept in the shared memory of a block where levels are few, one warp for each column of codes, so
that no two threads add to one number; else they are added in global memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array

# Models that a thread gathers, and that a warp adds up; rows of a tile.
GATHERED, WARP, TILE = 8, 32, 32
THREADS = 256
# Shared memory of a block at most, of which tiles take some; and what a slot takes.
SHARED_BYTES, SLOT_BYTES = 96 * 1024, 8 * WARP
TILE_BYTES = 8 * TILE * (WARP + 1)
# Blocks for each multiprocessor.
BLOCKS = 4

_SOURCE = """
typedef long long i64;
typedef unsigned long long u64;

// Where codes are, how wide each is (negative: signed), and the slot of rows without a level.
struct Codes { u64 at; int width; int none; };

__device__ inline i64 slot_of(const Codes c, i64 i) {
    i64 code;
    switch (c.width) {
        case 1: code = ((const unsigned char*)c.at)[i]; break;
        case 2: code = ((const unsigned short*)c.at)[i]; break;
        case 4: code = ((const unsigned int*)c.at)[i]; break;
        case 8: code = ((const i64*)c.at)[i]; break;
        case -1: code = ((const signed char*)c.at)[i]; break;
        case -2: code = ((const short*)c.at)[i]; break;
        case -4: code = ((const int*)c.at)[i]; break;
        default: code = ((const i64*)c.at)[i];
    }
    return code < 0 ? c.none : code;
}

// A column of slots: of one column of codes, or of pairs of two, whose slots follow `first`.
struct Column { Codes one; Codes two; i64 first; };

__device__ inline i64 slot_of(const Column c, i64 i) {
    const i64 slot = slot_of(c.one, i);
    return c.first + (c.two.width ? slot * (c.two.none + 1) + slot_of(c.two, i) : slot);
}

template <typename T>
__global__ void gather(const T* table, const Column* columns, int d, int stride, int models,
                       i64 n, T* out) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const int m = blockIdx.y * GATHERED;
    if (i >= n) return;
    T total[GATHERED];
    #pragma unroll
    for (int q = 0; q < GATHERED; ++q) total[q] = 0;
    for (int j = 0; j < d; ++j) {
        const T* row = table + slot_of(columns[j], i) * stride + m;
        #pragma unroll
        for (int q = 0; q < GATHERED; ++q) total[q] += row[q];
    }
    #pragma unroll
    for (int q = 0; q < GATHERED; ++q) if (m + q < models) out[(i64)(m + q) * n + i] = total[q];
}

template <typename T>
__global__ void scatter(const T* values, const Column* columns, int d, i64 first, int slots,
                        int models, i64 n, double* out) {
    extern __shared__ double sums[];
    __shared__ T tile[TILE][WARP + 1];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int m = blockIdx.y * WARP;
    for (int k = threadIdx.x; k < slots * WARP; k += blockDim.x) sums[k] = 0;
    for (i64 r = (i64)blockIdx.x * TILE; r < n; r += (i64)gridDim.x * TILE) {
        __syncthreads();
        for (int q = warp; q < WARP; q += warps) {
            const bool is_there = m + q < models && r + lane < n;
            tile[lane][q] = is_there ? values[(i64)(m + q) * n + r + lane] : T(0);
        }
        __syncthreads();
        const int rows = n - r < TILE ? (int)(n - r) : TILE;
        for (int j = warp; j < d; j += warps) {
            const i64 own = lane < rows ? slot_of(columns[j], r + lane) - first : 0;
            for (int k = 0; k < rows; ++k) {
                const i64 slot = __shfl_sync(0xffffffff, own, k);
                const double value = (double)tile[k][lane];
                if (slots) {
                    sums[slot * WARP + lane] += value;
                } else if (m + lane < models) {
                    atomicAdd(out + (first + slot) * models + m + lane, value);
                }
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < slots * WARP; k += blockDim.x) {
        const int model = m + k % WARP;
        if (model < models && sums[k] != 0) {
            atomicAdd(out + (first + k / WARP) * models + model, sums[k]);
        }
    }
}
"""
_COLUMN = np.dtype(
    [
        *(("at", np.uint64), ("width", np.int32), ("none", np.int32)),
        *(("at2", np.uint64), ("width2", np.int32), ("none2", np.int32)),
        ("first", np.int64),
    ],
    align=True,
)
_TYPES = {"float32": "float", "float64": "double"}


@cache
def _kernels() -> Any:
    import cupy

    names = [f"{name}<{own}>" for name in ("gather", "scatter") for own in _TYPES.values()]
    sizes = f"#define GATHERED {GATHERED}\n#define WARP {WARP}\n#define TILE {TILE}\n"
    options = ("--std=c++14",)
    return cupy.RawModule(code=sizes + _SOURCE, options=options, name_expressions=names)


@cache
def _kernel(name: str, dtype: str) -> Any:
    found = _kernels().get_function(f"{name}<{_TYPES[dtype]}>")
    if name == "scatter":
        found.max_dynamic_shared_size_bytes = _shared_bytes()
    return found


@cache
def _shared_bytes() -> int:
    """What sums may take of the shared memory of a block."""
    return min(SHARED_BYTES, _facts()["sharedMemPerBlockOptin"]) - TILE_BYTES


@cache
def _facts() -> dict[str, Any]:
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)


@dataclass(frozen=True)
class Slots:
    """Columns of slots: of codes (n,) and their number of levels, or of pairs of such.

    A column has a slot for each level, and a last one for rows without: of pairs, for each two.
    """

    columns: tuple[tuple[tuple[Array, int], ...], ...]

    @classmethod
    def of(cls, *columns: Sequence[tuple[Array, int]]) -> "Slots":
        """Of CuPy arrays, which are kept until the kernels have run."""
        import cupy

        return cls(
            tuple(tuple((cupy.ascontiguousarray(a), n) for a, n in each) for each in columns)
        )

    @property
    def sizes(self) -> list[int]:
        """How many slots each column has."""
        return [int(np.prod([n_levels + 1 for _, n_levels in each])) for each in self.columns]

    def records(self, some: Sequence[int]) -> Any:
        """What kernels know of some columns, on the device."""
        import cupy

        firsts = np.concatenate([[0], np.cumsum(self.sizes)])
        found = np.zeros(len(some), dtype=_COLUMN)
        for record, number in zip(found, some, strict=True):
            for suffix, (codes, n_levels) in zip(("", "2"), self.columns[number], strict=False):
                signed = codes.dtype.kind == "i"
                record[f"at{suffix}"] = codes.data.ptr
                record[f"width{suffix}"] = -codes.dtype.itemsize if signed else codes.dtype.itemsize
                record[f"none{suffix}"] = n_levels
            record["first"] = firsts[number]
        return cupy.asarray(found.view(np.uint8))

    def gathered(self, table: Array, n: int) -> Array:
        """Sums (M, n), over columns, of what a table (M, slots) has for the slot of each row."""
        import cupy

        models = table.shape[0]
        stride = -(-models // GATHERED) * GATHERED
        turned = cupy.zeros((table.shape[1], stride), dtype=table.dtype)
        turned[:, :models] = table.T
        out = cupy.empty((models, n), dtype=table.dtype)
        known = self.records(range(len(self.columns)))
        grid = (-(-n // THREADS), stride // GATHERED)
        given = (turned, known, np.int32(len(self.columns)), np.int32(stride), np.int32(models))
        if n:
            _kernel("gather", str(table.dtype))(grid, (THREADS,), (*given, np.int64(n), out))
        return out

    def sums(self, values: Array) -> Array:
        """Sums (M, slots) of values (M, n) by slot, in float64."""
        import cupy

        values = cupy.ascontiguousarray(values)
        models, n = values.shape
        sizes = self.sizes
        out = cupy.zeros((sum(sizes), models), dtype=cupy.float64)
        first = 0
        for group in _groups(sizes) if n else []:
            slots = sum(sizes[number] for number in group)
            slots = slots if slots * SLOT_BYTES <= _shared_bytes() else 0
            given = (values, self.records(group), np.int32(len(group)), np.int64(first))
            grid = (_blocks(n), -(-models // WARP))
            _kernel("scatter", str(values.dtype))(
                grid,
                (THREADS,),
                (*given, np.int32(slots), np.int32(models), np.int64(n), out),
                shared_mem=slots * SLOT_BYTES,
            )
            first += sum(sizes[number] for number in group)
        return out.T


def _groups(sizes):
    """Neighbouring columns whose slots fit into shared memory together; large ones alone."""
    found: list[list[int]] = []
    held = 0
    for number, size in enumerate(sizes):
        if found and (held + size) * SLOT_BYTES <= _shared_bytes():
            found[-1].append(number)
            held += size
        else:
            found.append([number])
            held = size
    return found


def _blocks(n):
    return max(1, min(-(-n // TILE), BLOCKS * _facts()["multiProcessorCount"]))
