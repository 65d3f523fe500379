"""Several small codes in a byte: packing, looking up, and the bytes of PLINK's .bed files.

The first column is in the lowest bits of the first byte. Functions take uint8 arrays of NumPy or
CuPy and give arrays of the same library, on the same device.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace

WIDTHS = (2, 4, 8)
# Bytes of codes that are worked on at a time: on a CPU they stay in the cache of a core.
HOST_BLOCK_BYTES = 2**18
GPU_BLOCK_BYTES = 2**27


def per_byte(bits: int) -> int:
    """Codes in a byte."""
    return 8 // bits


def row_bytes(n_columns: int, bits: int) -> int:
    """Bytes that a row takes."""
    return -(-n_columns // per_byte(bits))


def row_blocks(x: Array, n_columns: int) -> Iterator[slice]:
    """Slices of rows, in order, of so many codes as are worked on at a time."""
    block_bytes = HOST_BLOCK_BYTES if is_numpy(x) else GPU_BLOCK_BYTES
    step = max(1, block_bytes // max(n_columns, 1))
    for start in range(0, x.shape[0], step):
        yield slice(start, min(start + step, x.shape[0]))


def empty_by(x: Array, shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
    """Memory in the library and on the device of `x`; plain even where `x` is memory-mapped."""
    return namespace(x).empty(shape, dtype=dtype, device=device_of(x))


def pack_bits(codes: Array, bits: int) -> Array:
    """Bytes (n, row_bytes) of uint8 codes (n, p), each below ``2**bits``; padding bits are 0."""
    xp = namespace(codes)
    n, p = codes.shape
    if bits == 8:
        return xp.ascontiguousarray(codes)
    if n * p == 0:
        return xp.zeros_like(codes, shape=(n, row_bytes(p, bits)))
    per = per_byte(bits)
    padding = -p % per
    if padding:
        codes = xp.concatenate([codes, xp.zeros_like(codes, shape=(n, padding))], axis=1)
    # The codes of a byte as one number: its first code is in its lowest byte already, and each
    # shift brings the next one there. Whatever else is shifted lies above and is cut off.
    words = xp.ascontiguousarray(codes).view(f"<u{per}")
    joined = words
    for place in range(1, per):
        joined = joined | (words >> (place * (8 - bits)))
    return joined.astype(xp.uint8)


def unpack_bits(data: Array, n_columns: int, table: Array, out: Array) -> None:
    """Write what a table says of each byte to `out` (n, n_columns), which is C-contiguous.

    The table (256, codes in a byte) has the dtype of `out` and is in its place.
    """
    xp = namespace(data)
    per = table.shape[1]
    index = None
    for rows in row_blocks(data, n_columns):
        block = data[rows, :]
        if not is_numpy(data):
            out[rows, :] = xp.take(table, block, axis=0).reshape(len(block), -1)[:, :n_columns]
            continue
        index = np.empty(block.size, dtype=np.intp) if index is None else index[: block.size]
        if n_columns % per == 0:
            look_up(block, table, out[rows, :].reshape(*block.shape, per), index)
        else:
            values = np.empty((*block.shape, per), dtype=out.dtype)
            look_up(block, table, values, index)
            out[rows, :] = values.reshape(len(block), -1)[:, :n_columns]


def look_up(
    data: np.ndarray, table: np.ndarray, out: np.ndarray, index: np.ndarray | None = None
) -> None:
    """``out[...] = table[data]``; `index`, intp of the size of `data`, is memory to work in.

    NumPy looks up numbers of this width alone, and would take new memory to turn bytes into them.
    Bytes cannot be outside of the table, which "clip" saves it to look at.
    """
    if index is not None:
        index = index.reshape(data.shape)
        np.copyto(index, data)
    np.take(table, data if index is None else index, axis=0, out=out, mode="clip")


@cache
def code_table(bits: int) -> np.ndarray:
    """The codes of each byte: uint8 (256, codes in a byte)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return _constant((np.arange(256, dtype=np.uint8)[:, None] >> shifts) & missing_code(bits))


@cache
def value_table(bits: int, dtype: str, missing: bool, fill: float) -> np.ndarray:
    """The same in another dtype; the code of missing values, if there is one, becomes `fill`."""
    codes = code_table(bits)
    values = codes.astype(dtype)
    if missing:
        values[codes == missing_code(bits)] = fill
    return _constant(values)


@cache
def missing_table(bits: int, dtype: str) -> np.ndarray:
    """1 for each code of a byte that means a missing value, 0 for others."""
    return _constant((code_table(bits) == missing_code(bits)).astype(dtype))


def missing_code(bits: int) -> np.uint8:
    """The code that may stand for a missing value: all bits are set."""
    return np.uint8(2**bits - 1)


def missing_bits(data: Array, bits: int) -> Array:
    """Bytes with the lowest bit of each code set where all of its bits are."""
    if bits == 2:
        return data & (data >> 1) & 0x55
    if bits == 4:
        pairs = data & (data >> 1)
        return pairs & (pairs >> 2) & 0x11
    return data == missing_code(bits)


def clear_padding(data: Array, n_columns: int, bits: int) -> None:
    """Set padding bits to 0, in place."""
    used = n_columns % per_byte(bits)
    if used:
        data[:, -1] &= 2 ** (used * bits) - 1


def from_bed(data: Array, n_columns: int, count_A1: bool) -> Array:
    """Codes 0, 1, 2 and 3 (missing) of the bytes of a .bed file, in new memory.

    Fields of the file have a high and a low bit: 00 are two alleles A1, 10 one, 11 none, and 01 is
    missing. Counting A1 that is ``not high, high xor low``; counting the other allele it is
    ``low, high xor low``.
    """
    low = data & 0x55
    high = (data >> 1) & 0x55
    first = (high ^ 0x55) if count_A1 else low
    codes = (first << 1) | (high ^ low)
    clear_padding(codes, n_columns, 2)
    return codes


def transposed_quarters(data: Array) -> Array:
    """Two-bit codes of 4v rows and 4s columns, (4v, s) bytes, as 4s rows of (v,) bytes."""
    xp = namespace(data)
    four, width = data.shape[0] // 4, data.shape[1]
    out = empty_by(data, (width, 4, four))
    rows = [xp.ascontiguousarray(data[i::4, :].T) for i in range(4)]
    for column in range(4):
        fields = [((row >> (2 * column)) & 3) << (2 * i) for i, row in enumerate(rows)]
        out[:, column, :] = fields[0] | fields[1] | fields[2] | fields[3]
    return out.reshape(4 * width, four)


def _constant(table):
    table.flags.writeable = False
    return table
