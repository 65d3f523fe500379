"""Products with maps that have few entries: scalers, and encoders with one column per level.

Their matrices grow with the number of levels, and dense products with them would take longer than
products with the rows.
"""

from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import Array, is_numpy

# Smaller matrices, and those with a larger share of non-zero entries, stay dense.
LEAST_ENTRIES = 2**15
ONE_IN = 16


def few_entries(maps: Array) -> list[Any] | None:
    """Matrices (S, k, p) of NumPy as sparse ones; None if that saves nothing."""
    if not is_numpy(maps) or maps.ndim != 3 or len(maps) == 0 or maps[0].size < LEAST_ENTRIES:
        return None
    if ONE_IN * np.count_nonzero(maps) > maps.size:
        return None
    return [sparse.csr_array(matrix) for matrix in maps]


def from_right(vectors: Array, maps: list[Any], *, transpose: bool = False) -> Array:
    """Vectors (C, S or 1, k, p) times ``maps`` (S, p, q), or their transposes (S, q, p)."""
    found = []
    for s, matrix in enumerate(maps):
        own = vectors[:, min(s, vectors.shape[1] - 1), ...]
        flat = own.reshape(-1, own.shape[-1]).T
        product = (matrix if transpose else matrix.T) @ flat
        found.append(product.T.reshape(*own.shape[:-1], -1))
    return np.stack(found, axis=1)


def both_sides(maps: list[Any], matrices: Array, n_blocks: int = 1) -> Array:
    """``M H M'`` (C, S, k m, k m) for maps M (S, m, p), in each of k x k blocks of H.

    H has shape (C, S or 1, k p, k p), or (S or 1, k p, k p) for results without the first axis.
    """
    if matrices.ndim == 3:
        return both_sides(maps, matrices[None, ...], n_blocks)[0]
    found: list[list[Array]] = []
    k, p = n_blocks, matrices.shape[-1] // n_blocks
    for own in matrices:
        found.append([])
        for s, matrix in enumerate(maps):
            H = own[min(s, len(own) - 1)].reshape(k, p, k, p)
            half = matrix @ H.transpose(1, 0, 2, 3).reshape(p, -1)  # (m, k k p)
            half = half.reshape(-1, k, k, p).transpose(3, 0, 1, 2).reshape(p, -1)
            whole = (matrix @ half).reshape(matrix.shape[0], -1, k, k)
            order = k * matrix.shape[0]
            found[-1].append(whole.transpose(2, 1, 3, 0).reshape(order, order))
    return np.asarray(found)
