"""Hessians of rows whose designs compute products of columns better than dense copies would.

The Hessian of a row is ``h [x, 1][x, 1]'`` for each pair of its vectors, with h a number that the
margins give. Sums of those are what `Design.gram` makes of h, block by block of columns: of codes
it adds numbers up, and the work does not grow with the number of their levels.
"""

from typing import Any

from gpuml._arrays import Array
from gpuml._arrays.ops import zeros
from gpuml._arrays.threads import ordered_map
from gpuml.data import cut
from gpuml.designs import Columns, Dense, Sparse
from gpuml.designs.base import SMALLEST_BLOCK_ROWS

# Workspace besides the products of columns, whose size does not depend on the number of rows.
CPU_BYTES = 2**23
GPU_BYTES = 2**29


def hessians(data: Any, W: Array, shift: Array | None = None) -> Array:
    """As `newton.second_derivatives`, whose models W are of rows less the shift."""
    xp, place, loss = data.place.xp, data.place, data.loss
    n_candidates, n_splits, k, q = W.shape
    grid = (n_candidates, n_splits)
    n_models = n_candidates * n_splits
    A = xp.reshape(xp.permute_dims(W, (2, 0, 1, 3)), (-1, q))
    pairs = [(i, j) for i in range(k) for j in range(i + 1)]

    def of_block(rows):
        X = data.design.sample(rows)
        X = X if shift is None else X.less(shift)[0]
        z = xp.matrix_transpose(X.matvec(A[:, :-1])) + A[:, -1:]
        c = loss.curvature(xp.reshape(z, (k, *grid, X.shape[0])), data.target[..., rows], xp)
        w = 1.0 if data.weights is None else xp.astype(data.weights[:, rows], xp.float64)
        if loss.coupled:
            each = [w * (_same(i, j, c) - c[i, ...] * c[j, ...]) for i, j in pairs]
        else:
            each = [w * c[0, ...]]
        h = xp.reshape(xp.stack(each), (-1, X.shape[0]))
        if isinstance(X, Sparse):
            return X.with_ones().gram(h)
        ones = xp.ones((X.shape[0], 1), dtype=xp.float64, device=place.device)
        return Columns((X, Dense(ones, place))).gram(h)

    row_bytes = data.design.row_bytes + 8 * n_models * (2 * k + len(pairs))
    bound = CPU_BYTES if place.kind == "numpy" else GPU_BYTES
    blocks = cut(slice(0, data.n_rows), max(SMALLEST_BLOCK_ROWS, bound // row_bytes))
    alone = data.threads == 1
    parts = map(of_block, blocks) if alone else ordered_map(of_block, blocks, data.threads)
    found = next(parts, None)
    if found is None:  # no rows
        found = zeros((len(pairs) * n_models, q, q), like=data.target, xp=xp)
    for part in parts:
        found += part
    if k == 1:
        return xp.reshape(found, (*grid, q, q))
    found = xp.reshape(found, (len(pairs), n_models, q, q))
    total = zeros((n_models, k, q, k, q), like=data.target, xp=xp)
    for number, (i, j) in enumerate(pairs):
        total[:, i, :, j, :] = found[number, ...]
        total[:, j, :, i, :] = found[number, ...]
    return xp.reshape(total, (*grid, k * q, k * q))


def _same(i, j, c):
    return c[i, ...] if i == j else 0.0
