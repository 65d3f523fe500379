"""Sums of the codes of columns, and of their squares, from packed bytes of NumPy.

Two-bit codes are hardly taken apart: the bits of three rows are added within their bytes, as sums
of three fit in a field, and only such sums are spread over bytes, which hold those of 255 rows.
"""

import numpy as np

from gpuml.encodings._bits import code_table, look_up, missing_code, per_byte

# Rows whose bits add up to at most what a byte holds; a multiple of 3.
BLOCK_ROWS = 255
# Bytes at a time: few calls, and what they leave stays in cache.
BLOCK_BYTES = 2**17


def count_run(data: np.ndarray, n_columns: int, bits: int, missing: bool) -> np.ndarray:
    """Of each column: codes that are present, their sum, the sum of squares, int64 (3, p)."""
    n, width = data.shape
    step = BLOCK_ROWS
    if bits == 2:
        step *= max(1, BLOCK_BYTES // (BLOCK_ROWS * max(1, width)))
        # New memory for each block would take longer than the sums.
        memory = np.empty((4, step, width), dtype=np.uint8)
    total = np.zeros((3, width * per_byte(bits)), dtype=np.int64)
    for start in range(0, n, step):
        block = data[start : start + step]
        total += _two_bits(block, missing, memory) if bits == 2 else _wider(block, bits, missing)
    return total[:, :n_columns]


def _two_bits(block, missing, memory):
    n = len(block)
    memory[:3, n:] = 0
    low, high, every = memory[:3, :n]
    np.bitwise_and(block, 0x55, out=low)
    np.right_shift(block, 1, out=high)
    high &= 0x55
    np.bitwise_and(low, high, out=every)
    n_low, n_high, n_all = (_bit_sums(bits, memory[3]) for bits in memory[:3])
    if missing:
        n_one, n_two = n_low - n_all, n_high - n_all
        return np.stack([n - n_all, n_one + 2 * n_two, n_one + 4 * n_two])
    # A code is low + 2 high, its square low + 4 high + 4 low high.
    return np.stack([np.full_like(n_all, n), n_low + 2 * n_high, n_low + 4 * n_high + 4 * n_all])


def _bit_sums(bits, memory):
    """Sums over rows of the lowest bits of all two-bit fields: int64 (4 * width,)."""
    n, width = bits.shape
    blocks = bits.reshape(-1, BLOCK_ROWS, width)
    thirds, field = memory[: n // 3 * 2].reshape(2, -1, BLOCK_ROWS // 3, width)
    np.add(blocks[:, 0::3], blocks[:, 1::3], out=thirds)
    thirds += blocks[:, 2::3]
    sums = np.empty((width, 4), dtype=np.int64)
    for k in range(4):
        np.right_shift(thirds, 2 * k, out=field)
        np.bitwise_and(field, 3, out=field)
        field.sum(axis=1, dtype=np.uint8).sum(axis=0, dtype=np.int64, out=sums[:, k])
    return sums.ravel()


def _wider(block, bits, missing):
    """The same of up to 255 rows of codes of 4 or 8 bits; float32 holds such sums exactly."""
    table = code_table(bits)
    codes = np.empty((*block.shape, table.shape[1]), dtype=np.uint8)
    look_up(block, table, codes)
    codes = codes.reshape(len(block), -1)
    values = codes.astype(np.float32)
    n_present = np.full(codes.shape[1], len(block))
    if missing:
        absent = codes == missing_code(bits)
        n_present = n_present - absent.sum(axis=0)
        values[absent] = 0
    total = values.sum(axis=0)
    values *= values
    return np.stack([n_present, total.astype(np.int64), values.sum(axis=0).astype(np.int64)])
