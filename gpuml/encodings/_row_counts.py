"""What rows of codes sum to, read from tables with an entry for each byte."""

from functools import cache

import numpy as np

from gpuml._arrays import Array, namespace

# Bytes that are looked up at a time.
BLOCK_BYTES = 2**24


def row_counts(data: Array, n_columns: int, bits: int, missing: bool) -> tuple[Array, Array, Array]:
    """Of each row: codes that are present, their sum, and the sum of their squares, float64 (n,).

    Parameters
    ----------
    data : uint8 array (n, n_bytes) of NumPy or CuPy
        What padding bits hold does not matter.
    n_columns : int
    bits : {2, 4, 8}
    missing : bool
        Whether the largest code means that a value is missing.
    """
    xp = namespace(data)
    n, n_bytes = data.shape
    padding = n_bytes * (8 // bits) - n_columns
    used = 2 ** (8 - padding * bits) - 1
    tables = [xp.asarray(table, device=data.device) for table in _tables(bits, missing)]
    step = max(1, BLOCK_BYTES // max(n_bytes, 1))
    parts = []
    for start in range(0, max(n, 1), step):
        rows, last = data[start : start + step, :-1], data[start : start + step, -1] & used
        parts.append(
            [xp.sum(table[rows], axis=1, dtype=xp.float64) + table[last] for table in tables]
        )
    count, total, squares = (xp.concat(column) for column in zip(*parts, strict=True))
    return count - padding, total, squares


@cache
def _tables(bits, missing):
    """For each byte: how many of its codes are present, their sum, and the sum of squares."""
    top = 2**bits - 1
    codes = (np.arange(256)[:, None] >> np.arange(0, 8, bits)) & top
    present = codes != top if missing else np.ones_like(codes, dtype=bool)
    values = codes * present
    return [a.sum(axis=1).astype(np.int32) for a in (present, values, values**2)]
