"""The dense factor of a product with packed codes, as bytes for the tensor cores of a GPU."""

from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import Array
from gpuml.encodings._gpu_source import Gpu, Macros

DEFAULT_SLICES = {"float32": 3, "float64": 4}
MOST_SLICES = 4  # sums of more do not fit 64 bits
GROUP = 64  # byte columns that one block's accumulators hold
C_NAMES = {"float32": "float", "float64": "double"}


class Columns(NamedTuple):
    """How the columns of the dense factor are divided among accumulators."""

    slices: int
    n_groups: int
    per_group: int  # columns
    n_tiles: int  # of 8 byte columns, in a group

    @classmethod
    def of(cls, width: int, slices: int | None, dtype: Any) -> "Columns":
        """For `width` columns of numbers; `slices` None takes what the dtype is worth."""
        slices = DEFAULT_SLICES[dtype.name] if slices is None else slices
        if not 1 <= slices <= MOST_SLICES:
            raise ValueError(f"slices must be from 1 to {MOST_SLICES}, got {slices}.")
        n_groups = -(-width // (GROUP // slices))
        per_group = -(-width // n_groups)
        return cls(slices, n_groups, per_group, -(-per_group * slices // 8))

    @property
    def macros(self) -> Macros:
        """What kernels have to know of this."""
        return (("N_TILES", self.n_tiles), ("SLICES", self.slices))


def dense(gpu: Gpu, W: Array, length: int, what: str) -> Array:
    """A dense factor in C order, float32 or float64."""
    if W.ndim != 2 or W.shape[0] != length:
        raise ValueError(
            f"The factor must have a row for each of the {length} {what} of the codes; its shape "
            f"is {W.shape}."
        )
    dtype = np.float32 if W.dtype == np.float32 else np.float64
    return gpu.xp.ascontiguousarray(W, dtype=dtype)


def sliced(
    gpu: Gpu, factors: list[Array], columns: Columns, n_steps: int, codes: int
) -> tuple[Array, Array]:
    """Factors as fragments for the tensor cores, and float64 scales (l,) of their columns.

    `codes` is that of a byte for factors that go with columns of codes, 0 for those that go with
    rows. Factors have the same scales.
    """
    xp = gpu.xp
    n_rows, width = factors[0].shape
    macros = (("IN", C_NAMES[factors[0].dtype.name]), ("SLICES", columns.slices))
    peaks = xp.zeros(width, dtype=np.float64)
    for factor in factors:
        blocks = max(-(-width // 256), _blocks(gpu, factor.size, 256 * 8))
        matrix = (factor, np.int64(n_rows), np.int32(width))
        gpu.launch("slices", "column_peaks", macros, (blocks,), 256, (*matrix, peaks))
    n_warps = columns.n_groups * n_steps
    blocks = _blocks(gpu, n_warps, 8)
    fragments = xp.empty((len(factors) * n_warps, columns.n_tiles * 256), dtype=np.uint8)
    for kind, factor in enumerate(factors):
        arguments = (
            factor,
            np.int64(n_rows),
            np.int32(width),
            peaks,
            fragments,
            np.int64(n_steps),
            np.int32(columns.n_groups),
            np.int32(columns.per_group),
            np.int32(columns.n_tiles),
            np.int32(kind),
            np.int32(len(factors)),
            np.int32(codes),
        )
        gpu.launch("slices", "slice", macros, (blocks,), 256, arguments)
    return fragments, peaks / (127.0 * 256.0 ** (columns.slices - 1))


def _blocks(gpu, size, per_block):
    """Blocks for a kernel whose threads walk over `size` elements."""
    return min(-(-size // per_block), 32 * gpu.n_processors)
