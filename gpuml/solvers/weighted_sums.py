"""Second moments of the same rows with the weights of many models."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, namespace
from gpuml._arrays.grams import add_gram, full_symmetric
from gpuml.data import cut

# Numbers of all that is worked on at once, and of a block of rows that is multiplied by weights: in
# a cache, or to keep a GPU busy.
BLOCK_NUMBERS, DEVICE_NUMBERS, CACHED_NUMBERS = 2**18, 2**26, 2**17
# Numbers of weighted rows on a device.
WEIGHTED_NUMBERS = 2**27


def block_numbers(X: Array) -> int:
    """Numbers of a block of X with which several things are done, one after the other."""
    return CACHED_NUMBERS if is_numpy(X) else DEVICE_NUMBERS


def weighted_grams(X: Array, weight: Array) -> Array:
    """``X' diag(weight) X`` (K, q, q) of rows (m, q) or (K, m, q), and weights (K, m)."""
    xp: Any = namespace(X)
    (m, q), total = X.shape[-2:], None
    if is_numpy(X):
        return _grams_here(X, np.sqrt(weight))
    size = max(1, WEIGHTED_NUMBERS // (q * weight.shape[0]))
    for first in range(0, m, size):
        some = slice(first, min(first + size, m))
        block = X[..., some, :]
        found = (xp.matrix_transpose(block) * weight[:, None, some]) @ block
        total = found if total is None else total + found
    return total


def _grams_here(X, root):
    """Half of the products, of blocks that a cache holds."""
    (m, q), n_models = X.shape[-2:], len(root)
    total = np.zeros((n_models, q, q))
    for k in range(n_models):
        rows = X if X.ndim == 2 else X[k]
        for some in cut(slice(0, m), max(1, CACHED_NUMBERS // q)):
            add_gram(total[k], rows[some] * root[k, some, None])
    return full_symmetric(total, np)
