"""The dense factor of a product with packed codes, as bytes for the tensor cores of a GPU."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpuml._arrays import Array
from gpuml.encodings._gpu_source import Gpu, Macros

DEFAULT_SLICES = {"float32": 3, "float64": 7}
MOST_SLICES = 7
AT_ONCE = 4  # sums of more do not fit 64 bits
GROUP = 64  # byte columns that one block's accumulators hold
C_NAMES = {"float32": "float", "float64": "double"}


class Columns(NamedTuple):
    """How the columns of the dense factor are divided among accumulators."""

    slices: int
    n_groups: int
    per_group: int  # columns
    n_tiles: int  # of 8 byte columns, in a group

    @classmethod
    def of(cls, width: int, slices: int) -> "Columns":
        """For `width` columns of numbers, and at most `AT_ONCE` slices."""
        n_groups = -(-width // (GROUP // slices))
        per_group = -(-width // n_groups)
        return cls(slices, n_groups, per_group, -(-per_group * slices // 8))

    @property
    def division(self) -> tuple[int, int]:
        """The arguments of kernels for it."""
        return self.n_groups, self.per_group

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


def parts_of(
    gpu: Gpu, factors: list[Array], slices: int | None
) -> Iterator[tuple[list[Array], Columns]]:
    """Factors whose sum is `factors`, each with slices that can be summed up at once.

    The second of them is what the slices of the first do not hold. `slices` None takes what the
    dtype is worth.
    """
    dtype, width = factors[0].dtype, factors[0].shape[1]
    slices = DEFAULT_SLICES[dtype.name] if slices is None else slices
    if not 1 <= slices <= MOST_SLICES:
        raise ValueError(f"slices must be from 1 to {MOST_SLICES}, got {slices}.")
    first = min(slices, AT_ONCE)
    yield factors, Columns.of(width, first)
    if slices > first:
        yield _rest(gpu.xp, factors, first), Columns.of(width, slices - first)


def _rest(xp, factors, slices):
    """What slices do not hold; the whole numbers are those of the kernel, to the bit."""
    peaks = xp.max(xp.stack([xp.max(xp.abs(factor), axis=0) for factor in factors]), axis=0)
    peaks = peaks.astype(np.float64)
    largest = 127.0 * 256.0 ** (slices - 1)
    tiny = ~(peaks > 1e-290)
    inverse = xp.where(tiny, 0.0, largest / xp.where(tiny, 1.0, peaks))
    return [factor - xp.rint(factor * inverse) * (peaks / largest) for factor in factors]


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
            *(np.int32(number) for number in (*columns.division, columns.n_tiles)),
            *(np.int32(number) for number in (kind, len(factors), codes)),
        )
        gpu.launch("slices", "slice", macros, (blocks,), 256, arguments)
    return fragments, peaks / (127.0 * 256.0 ** (columns.slices - 1))


def _blocks(gpu, size, per_block):
    """Blocks for a kernel whose threads walk over `size` elements."""
    return min(-(-size // per_block), 32 * gpu.n_processors)
