"""Second moments of the same rows with the weights of many models."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, namespace
from gpuml._arrays.grams import add_gram, full_symmetric
from gpuml.data import cut

# Numbers of all that is worked on at once, and of a block of rows that is multiplied by weights: in
# a cache, or to keep a GPU busy.
BLOCK_NUMBERS, DEVICE_NUMBERS, CACHED_NUMBERS = 2**18, 2**26, 2**17
# Of so many features, to find half of the products takes longer than to find all.
FEW_FEATURES = 48
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
        return _grams_here(X, weight)
    size = max(1, WEIGHTED_NUMBERS // (q * weight.shape[0]))
    for first in range(0, m, size):
        some = slice(first, min(first + size, m))
        block = X[..., some, :]
        found = (xp.matrix_transpose(block) * weight[:, None, some]) @ block
        total = found if total is None else total + found
    return total


def _grams_here(X, weight):
    (m, q), n_models = X.shape[-2:], len(weight)
    total = np.zeros((n_models, q, q))
    at_once = q <= FEW_FEATURES and m * q <= CACHED_NUMBERS
    for k in range(n_models):
        rows = X if X.ndim == 2 else X[k]
        if at_once:
            np.matmul(rows.T * weight[k], rows, out=total[k])
            continue
        root = np.sqrt(weight[k])[:, None]
        for some in cut(slice(0, m), max(1, CACHED_NUMBERS // q)):
            add_gram(total[k], rows[some] * root[some])
    return total if at_once else full_symmetric(total, np)
