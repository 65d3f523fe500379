"""Inverses of many positive definite matrices: one by one, in batches, or by halves."""

from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import Array, device_of, is_numpy, namespace, place_of
from gpuml._arrays.ops import zeros
from gpuml._arrays.threads import ordered_map
from gpuml.solvers._kernels import (
    has_room_for_inverses,
    inverses_by_kernel,
    scaled_by_kernel,
)

# Matrices up to this order are inverted in one batched call on a device.
BATCHED_ORDER = 160
# At least so many larger matrices are inverted together, by halves; fewer one by one.
WORTH_BATCHING = 4
# Bytes of larger ones that are inverted together.
BATCH_BYTES = 2**29


def inverse_spd(H: Array, least: float, threads: int) -> Array:
    """Inverses of positive definite matrices (..., p, p) of unit diagonal, in threads on a CPU.

    No eigenvalue is below `least`.
    """
    order, xp = H.shape[-1], namespace(H)
    if not is_numpy(H):
        if order > BATCHED_ORDER:
            return _inverse_each(H, xp)
        if place_of(H).kind == "cupy" and has_room_for_inverses(order):
            return inverses_by_kernel(H, least)
        return xp.linalg.inv(H)
    matrices = H.reshape(-1, order, order)
    apply = map if threads == 1 or order <= BATCHED_ORDER else partial(ordered_map, threads=threads)
    found = np.empty_like(matrices)
    for i, inverse in enumerate(apply(_inverse_one, matrices)):
        found[i] = inverse
    return found.reshape(H.shape)


def scaled(matrices: Array, scale: Array) -> Array:
    """Matrices (..., p, p) with rows and columns multiplied by a scale (..., p)."""
    if place_of(matrices).kind == "cupy":
        return scaled_by_kernel(matrices, scale)
    found = matrices * scale[..., :, None]
    if not is_numpy(found):
        return found * scale[..., None, :]
    found *= scale[..., None, :]  # without another copy of all of them
    return found


def same_for_all(diagonal: Array, k: int, q: int, xp: Any) -> Array:
    """Curvature (C, S, k q, k q) along directions that change all margins alike, and no others.

    The loss does not change along them, so that the Hessian is 0 there; steps have no part
    in these directions, but the matrix has to be invertible.
    """
    mean = xp.mean(xp.reshape(diagonal, (*diagonal.shape[:2], k, q)), axis=2)
    by_feature = mean[..., None] * xp.eye(q, dtype=xp.float64, device=device_of(mean)) / k
    return xp.tile(by_feature, (1, 1, k, k))


def _inverse_each(H, xp):
    """As `inverse_spd` on a device, where batched factorisations of large matrices are slow."""
    order = H.shape[-1]
    flat = xp.reshape(H, (-1, order, order))
    step = max(1, BATCH_BYTES // (8 * order**2))
    if type(H).__module__.startswith("cupy") and min(step, flat.shape[0]) >= WORTH_BATCHING:
        roots = (root_inverses(flat[i : i + step, ...], xp) for i in range(0, flat.shape[0], step))
        found = [xp.matrix_transpose(root) @ root for root in roots]
        return xp.reshape(xp.concat(found), H.shape)
    eye = xp.eye(order, dtype=xp.float64, device=device_of(H))
    found = [_inverse_by_cholesky(flat[i, ...], eye, xp) for i in range(flat.shape[0])]
    return xp.reshape(xp.stack(found), H.shape)


def root_inverses(H: Array, xp: Any) -> Array:
    """Inverses of the lower Cholesky factors of matrices (B, p, p), from those of their halves.

    Nearly all of it is products of many matrices, where a device factors each one in hundreds of
    small kernels.
    """
    order = H.shape[-1]
    if order <= BATCHED_ORDER:
        return xp.linalg.inv(xp.linalg.cholesky(H))
    half = order // 2
    first = root_inverses(H[:, :half, :half], xp)
    below = H[:, half:, :half] @ xp.matrix_transpose(first)
    last = root_inverses(H[:, half:, half:] - below @ xp.matrix_transpose(below), xp)
    above = xp.concat([first, zeros((H.shape[0], half, order - half), like=H, xp=xp)], axis=2)
    return xp.concat([above, xp.concat([-(last @ below) @ first, last], axis=2)], axis=1)


def _inverse_by_cholesky(matrix, eye, xp):
    if type(matrix).__module__.startswith("cupy"):
        from cupyx.scipy.linalg import solve_triangular

        root = solve_triangular(xp.linalg.cholesky(matrix), eye, lower=True)
        return root.T @ root
    return xp.linalg.inv(matrix)


def _inverse_one(matrix):
    jitter = 0.0
    while True:
        more = jitter * np.eye(len(matrix)) if jitter else 0.0
        factor, info = lapack.dpotrf(matrix.T + more, lower=0, overwrite_a=1)
        if info == 0:
            break
        jitter = max(10 * jitter, 1e-8)
    inverse, _ = lapack.dpotri(factor, lower=0, overwrite_c=1)
    np.copyto(inverse, inverse.T, where=_below_diagonal(len(inverse)))
    return inverse


@lru_cache(maxsize=4)
def _below_diagonal(order):
    """Which entries of a matrix are below its diagonal."""
    return np.tri(order, k=-1, dtype=bool)
