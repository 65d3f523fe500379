"""Products with packed codes on a GPU: integers on its tensor cores, exact but for one rounding.

The dense factor is rounded once, to `slices` signed bytes per number with one scale per column:
by at most ``max|W[:, c]| / (254 * 256**(slices - 1))``, which is 2^-24 of the largest entry with 3
slices and 2^-56 with 7. All sums are integers, so they depend neither on the GPU nor on how the
work is divided, and blocks with the same scales give the same bits. The kernels are in `cuda/`.
"""

import operator
from collections.abc import Iterator
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array
from gpuml.encodings._gpu_factor import C_NAMES, dense, parts_of, sliced
from gpuml.encodings._gpu_source import Gpu, gpu_of

LARGEST_DIGIT = 128

WARPS = 4
FORWARD_TILES = 4  # of 16 rows, for each warp
# Shapes of the tiles in shared memory, (extent, number of tiles): the first that fits is taken.
# Forward: bytes of each row. Backward: rows.
FORWARD_STAGES = ((64, 2), (32, 3), (32, 2))
BACKWARD_STAGES = ((128, 3), (64, 3), (64, 2), (32, 3), (32, 2))
# Rows that one block sums up in 32 bits: 65536 * 255 * 128 < 2^31. Fewer are not worth the
# additions to memory at the end.
MOST_RUN, LEAST_RUN = 65_536, 2_048
BLOCKS_PER_PROCESSOR = 16  # so that the last ones to finish hardly count


class Codes(NamedTuple):
    """Packed codes in GPU memory; `gpuml.encodings.Packed` has these attributes too.

    Attributes
    ----------
    data : array (n, ceil(n_columns * bits / 8)), uint8
        First column in the lowest bits. Rows may lie apart, at any address.
    n_columns : int
    bits : {2, 4, 8}
    missing : bool
        Whether the largest code means "missing".
    """

    data: Array
    n_columns: int
    bits: int
    missing: bool


def forward(
    packed: Any,
    W: Array,
    W_missing: Array | None = None,
    *,
    slices: int | None = None,
    gpu: Gpu | None = None,
) -> Array:
    """``X0 W + M W_missing``, with X0 the codes (0 where missing) and M 1 where they are missing.

    Parameters
    ----------
    packed : Packed or Codes, (n, p)
    W, W_missing : array (p, l), float32 or float64
    slices : int from 1 to 7, default=None
        Bytes for each number of W. None takes 3 for float32 and 7 for float64. More than 4 come in
        two products. Entries are off by at most ``sum(X0[i]) * max|W[:, c]| / (254 *
        256**(slices - 1))`` before the rounding to the dtype of W, with the maximum over W and
        W_missing (and M added to X0).
    gpu : Gpu, default=None
        None takes that of the codes.

    Raises
    ------
    RuntimeError
        On GPUs older than compute capability 8.0.
    """
    with gpu_of(packed.data, gpu) as gpu:
        W = dense(gpu, W, packed.n_columns, "columns")
        factors = [W]
        if W_missing is not None and packed.missing:
            factors.append(dense(gpu, W_missing.astype(W.dtype), packed.n_columns, "columns"))
        n_rows, width = packed.data.shape[0], W.shape[1]
        if 0 in (n_rows, width, packed.n_columns):
            return gpu.xp.zeros((n_rows, width), dtype=W.dtype)
        products = (_forward(gpu, packed, *part) for part in parts_of(gpu, factors, slices))
        return reduce(operator.add, products).astype(W.dtype, copy=False)


def _forward(gpu, packed, factors, columns):
    data, macros = _layout(gpu, packed, len(factors) == 2)
    n_rows, width = data.shape[0], factors[0].shape[1]
    (stage_bytes, n_stages), shared = _first_fit(
        gpu, FORWARD_STAGES, columns, partial(_forward_stage, columns, packed.bits, len(factors))
    )
    stages = -(-data.shape[1] // stage_bytes)
    in_byte = 8 // packed.bits
    fragments, scales = sliced(gpu, factors, columns, stages * stage_bytes // 32 * in_byte, in_byte)
    # More columns than 32 bits can sum up come one run after the other, added in float64.
    runs = list(_runs_of(stages, _most_codes(packed.bits) // in_byte // stage_bytes))
    dtype = factors[0].dtype if len(runs) == 1 else np.dtype(np.float64)
    Y = gpu.xp.empty((n_rows, width), dtype=dtype)
    macros += (("WARPS", WARPS), ("M_TILES", FORWARD_TILES), ("OUT", C_NAMES[dtype.name]))
    macros += (("STAGES", n_stages), ("STAGE_BYTES", stage_bytes), *columns.macros)
    grid = (-(-n_rows // (WARPS * FORWARD_TILES * 16)) * columns.n_groups,)
    for first, last in runs:
        arguments = (
            *_rows(data),
            fragments,
            *(np.int64(stage) for stage in (stages, first, last)),
            scales,
            Y,
            *(np.int32(number) for number in (width, *columns.division, first > 0)),
        )
        gpu.launch("forward", "forward", macros, grid, 32 * WARPS, arguments, shared)
    return Y.astype(factors[0].dtype, copy=False)


def backward(
    packed: Any,
    Y: Array,
    with_missing: bool = False,
    *,
    slices: int | None = None,
    gpu: Gpu | None = None,
) -> tuple[Array, Array | None]:
    """``X0' Y`` and, if asked for, ``M' Y``, float64 (p, l): see `forward`.

    Off by at most ``sum(X0[:, j]) * max|Y[:, c]| / (254 * 256**(slices - 1))``.
    """
    with gpu_of(packed.data, gpu) as gpu:
        Y = dense(gpu, Y, packed.data.shape[0], "rows")
        p, width = packed.n_columns, Y.shape[1]
        split = with_missing and packed.missing
        Z = gpu.xp.zeros((1 + bool(with_missing), p, width), dtype=np.float64)
        if Y.size and p:
            for (part,), columns in parts_of(gpu, [Y], slices):
                # Sums of so many rows are sure to fit 64 bits.
                most = 2**63 // ((2**packed.bits - 1) << (8 * columns.slices - 1))
                for first, last in _runs_of(Y.shape[0], most):
                    rows = Codes(packed.data[first:last], p, packed.bits, packed.missing)
                    sums, scales = _backward(gpu, rows, part[first:last], columns, split)
                    Z[: 1 + split] += sums * scales
        return Z[0], Z[1] if with_missing else None


def _backward(gpu, packed, Y, columns, split):
    """Whole-numbered sums (1 or 2, p, l) and what to multiply them by."""
    n_rows, width = Y.shape
    data, macros = _layout(gpu, packed, split)
    strip = WARPS // (1 + split) * packed.bits // 2 * 16
    (stage_rows, n_stages), shared = _first_fit(
        gpu, BACKWARD_STAGES, columns, partial(_backward_stage, columns, strip)
    )
    stages = -(-n_rows // stage_rows)
    fragments, scales = sliced(gpu, [Y], columns, stages * stage_rows // 32, 0)
    n_strips = -(-data.shape[1] // strip)
    run = _run(gpu, n_rows, n_strips * columns.n_groups, stage_rows) // stage_rows
    macros += (("WARPS", WARPS), ("STAGES", n_stages), ("STAGE_ROWS", stage_rows), *columns.macros)
    sums = gpu.xp.zeros((1 + split, packed.n_columns, width), dtype=np.int64)
    arguments = (
        *_rows(data),
        fragments,
        *(np.int64(number) for number in (stages, run)),
        *(sums[0], sums[-1]),
        np.int64(packed.n_columns),
        *(np.int32(number) for number in (width, *columns.division)),
    )
    grid = (n_strips * columns.n_groups, -(-stages // run))
    gpu.launch("backward", "backward", macros, grid, 32 * WARPS, arguments, shared)
    return sums, scales


def counts(packed: Any, *, gpu: Gpu | None = None) -> tuple[Array, Array, Array]:
    """How many codes of each column are present, their sum and that of their squares, int64."""
    with gpu_of(packed.data, gpu) as gpu:
        n_rows, p = packed.data.shape[0], packed.n_columns
        sums = gpu.xp.zeros((3, p), dtype=np.int64)
        if n_rows and p:
            data, macros = _layout(gpu, packed, False)
            n_strips = -(-data.shape[1] // 128)
            run = _run(gpu, n_rows, n_strips, 128)
            grid = (n_strips, -(-n_rows // run))
            arguments = (*_rows(data), np.int64(run), sums, np.int64(p))
            gpu.launch("counts", "counts", macros, grid, 256, arguments)
        return n_rows - sums[0], sums[1], sums[2]


# ---------------------------------------------------------------- the codes


def _layout(gpu, packed, split):
    """Data whose rows have no gaps inside, and the macros that say how to read them."""
    data = packed.data
    if data.shape[1] > 1 and data.strides[1] != 1:
        data = gpu.xp.ascontiguousarray(data)
    address = gpu.address(data) | (data.strides[0] if data.shape[0] > 1 else 0)
    align = next((size for size in (16, 8, 4) if address % size == 0), 1)
    missing = (1 + split) if packed.missing else 0
    return data, (("BITS", packed.bits), ("ALIGN", align), ("MISSING", missing))


def _rows(data):
    """The arguments of kernels that describe the codes."""
    n_rows, row_bytes = data.shape
    return data, np.int64(n_rows), np.int64(data.strides[0]), np.int64(row_bytes)


def _most_codes(bits):
    """Codes times digits that a sum of 32 bits surely holds."""
    return (2**31 - 1) // ((2**bits - 1) * LARGEST_DIGIT)


def _runs_of(length: int, most: int) -> Iterator[tuple[int, int]]:
    for first in range(0, length, most):
        yield first, min(first + most, length)


def _run(gpu, n_rows, n_others, multiple):
    """Rows for each block, where `n_others` blocks share them; a multiple of `multiple`."""
    n_runs = -(-BLOCKS_PER_PROCESSOR * gpu.n_processors // n_others)
    rows = min(max(-(-n_rows // n_runs), LEAST_RUN), MOST_RUN)
    return -(-rows // multiple) * multiple


# ---------------------------------------------------------------- shared memory


def _forward_stage(columns, bits, n_factors, stage_bytes):
    tile = WARPS * FORWARD_TILES * 16 * (stage_bytes + 16)
    return tile + stage_bytes // 32 * (8 // bits) * n_factors * columns.n_tiles * 256


def _backward_stage(columns, strip, stage_rows):
    return stage_rows * (strip + 16) + stage_rows // 32 * columns.n_tiles * 256


def _first_fit(gpu, shapes, columns, stage_size):
    """The first of `shapes` that a GPU has room for, and the bytes of shared memory it takes."""
    sums = WARPS * 16 * (columns.n_tiles * 8 + 4) * 4  # on their way out, where the tiles were
    sizes = [max(n_stages * stage_size(extent), sums) for extent, n_stages in shapes]
    for shape, size in zip(shapes, sizes, strict=True):
        if size <= gpu.shared_bytes:
            return shape, size
    return shapes[-1], sizes[-1]
