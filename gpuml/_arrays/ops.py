"""The few numerics that the array standard lacks or that a library does much better natively.

Each function has a body in standard operations and a short list of fast paths. All take the
namespace `xp` from their caller.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import (
    Array,
    Place,
    device_of,
    is_cupy,
    is_numpy,
    is_singular,
    namespace,
    nbytes,
)
from gpuml._arrays.cholesky import SMALL_ORDER, solve_by_cholesky
from gpuml._arrays.threads import threads_for_order

EPS = float(np.finfo(np.float64).eps)
# Matrices that are scaled at once on a CPU, and solved at once elsewhere.
CACHE_BYTES = 2**18
SYSTEM_BYTES = 2**30


def zeros(shape: tuple, *, like: Array, xp: Any) -> Array:
    """Float64 zeros on the device of `like`."""
    return xp.zeros(shape, dtype=xp.float64, device=device_of(like))


def widened(values: Array, width: int) -> Array:
    """Values (..., p) with zeros behind them, so that there are at least so many columns."""
    missing = width - values.shape[-1]
    if missing <= 0:
        return values
    xp = namespace(values)
    shape = (*values.shape[:-1], missing)
    return xp.concat(
        [values, xp.zeros(shape, dtype=values.dtype, device=device_of(values))], axis=-1
    )


def clipped(x: Array, low: float | None = None, high: float | None = None) -> Array:
    """Numbers not below `low` and not above `high`; nan stays.

    For NumPy and CuPy, `array_api_compat` writes to masks of them, for which a GPU has to wait.
    """
    if is_numpy(x) or is_cupy(x):
        return x.clip(low, high)
    return namespace(x).clip(x, min=low, max=high)


def side_by_side(parts: Sequence[Array], place: Place) -> Array:
    """The columns of arrays (n, p); on a GPU, the numbers of a column are side by side in memory.

    Kernels there read one column after the other, and products do not mind.
    """
    if place.is_host:
        return place.xp.concat(parts, axis=1)
    return place.xp.concat([part.T for part in parts], axis=0).T


def constant(values: Any, *, like: Array, xp: Any) -> Array:
    """Numbers of NumPy as a float64 array on the device of `like` (a small copy upwards)."""
    return xp.asarray(np.asarray(values, dtype=np.float64), device=device_of(like))


def triangular_factor(Z: Array, xp: Any) -> Array:
    """Upper triangular R (min(n, q), q) with ``R' R = Z' Z``, by Householder QR."""
    if is_numpy(Z):
        factored, *_ = lapack.dgeqrf(np.asfortranarray(Z), overwrite_a=1, lwork=64 * Z.shape[1])
        return np.triu(factored[: min(Z.shape)])
    if type(Z).__module__.startswith("cupy"):
        import cupy

        return cupy.linalg.qr(Z, mode="r")
    return xp.linalg.qr(Z)[1]


def solve_shifted(
    M: Array, shifts: np.ndarray, B: Array, xp: Any, enough: float = 0.0
) -> tuple[Array, Array]:
    """Solve ``(M + s I) X = B`` for rising shifts s, and say how sensitive each system is.

    A shift moves all Rayleigh quotients of the matrix that is scaled to a unit diagonal towards 1.
    So its condition falls as shifts rise, and that of the smallest stands for all where it will do.

    Parameters
    ----------
    M : array (S, p, p), float64
        Symmetric, positive semidefinite.
    shifts : ndarray (U,), host
    B : array (S, p, t), float64
    enough : float
        A condition number that will do.

    Returns
    -------
    X : array (U, S, p, t)
    condition : array (U, S)
        As of `solve_spd`.
    """
    if is_numpy(M):
        with threads_for_order(*B.shape[-2:]):
            return _solve_shifted_lapack(M, shifts, B, enough)
    eye = xp.eye(M.shape[-1], dtype=xp.float64, device=device_of(M))

    def solved(some, with_condition=True):
        matrices = M[None, ...] + constant(some, like=M, xp=xp)[:, None, None, None] * eye
        sides = xp.broadcast_to(B[None, ...], (len(some), *B.shape))
        return solve_spd(matrices, sides, xp, with_condition=with_condition)

    X, condition = solved(shifts[:1])
    if len(shifts) == 1:
        return X, condition
    will_do = all_true(condition <= enough, xp)
    # Enough matrices at once to keep a GPU busy, within the memory limit.
    step = max(1, SYSTEM_BYTES // max(1, nbytes(M)))
    rest = [solved(shifts[i : i + step], not will_do) for i in range(1, len(shifts), step)]
    found, conditions = zip(*rest, strict=True)
    others = xp.concat(conditions)
    if will_do:
        others = xp.maximum(others, condition)
    return xp.concat([X, *found]), xp.concat([condition, others])


def solve_spd(A: Array, B: Array, xp: Any, *, with_condition: bool = True) -> tuple[Array, Array]:
    """Solve symmetric positive definite systems, and say how sensitive each one was.

    The systems are scaled to a unit diagonal first: the error of the solution is then that of the
    best diagonal scaling within a factor of the order (van der Sluis 1969), so features of very
    different scales do no harm.

    Parameters
    ----------
    A : array (..., p, p), float64
        Matrices with a positive diagonal.
    B : array (..., p, t), float64
    with_condition : bool
        Whether the condition is asked for; else it may be any number from 1 on.

    Returns
    -------
    X : array (..., p, t)
    condition : array (...)
        1-norm condition numbers of the scaled matrices; inf or nan where a factorisation broke
        down, and then X holds nothing of use.
    """
    if is_numpy(A):
        return _solve_spd_lapack(A, B)
    diagonal = xp.linalg.diagonal(A)
    positive = diagonal > 0
    scale = 1.0 / xp.sqrt(xp.where(positive, diagonal, 1.0))
    A = A * scale[..., :, None] * scale[..., None, :]
    B = B * scale[..., :, None]
    in_parts = type(A).__module__.startswith("cupy") and A.shape[-1] > SMALL_ORDER
    X, condition = (
        _solve_scaled_cupy(A, B, xp, with_condition) if in_parts else _solve_scaled(A, B, xp)
    )
    broken = ~xp.all(positive, axis=-1)
    inf = xp.full_like(condition, float("inf"))
    return X * scale[..., :, None], xp.where(broken, inf, condition)


def _solve_scaled_cupy(A, B, xp, with_condition):
    p, t = B.shape[-2:]
    lead = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    matrices, sides = (xp.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (A, B))
    X, condition = solve_by_cholesky(
        xp.reshape(matrices, (-1, p, p)), xp.reshape(sides, (-1, p, t)), with_condition
    )
    return xp.reshape(X, (*lead, p, t)), xp.reshape(condition, lead)


def _solve_spd_lapack(A, B):
    p, t = B.shape[-2:]
    lead = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    matrices = np.broadcast_to(A, (*lead, p, p)).reshape(-1, p, p)
    sides = np.broadcast_to(B, (*lead, p, t)).reshape(-1, p, t)
    with threads_for_order(p, t):
        X, condition = _solve_shifted_lapack(matrices, np.zeros(1), sides, 0.0)
    return X.reshape(*lead, p, t), condition.reshape(lead)


def _solve_shifted_lapack(M, shifts, B, enough):
    """A few at a time, in the same memory."""
    n, p = M.shape[:2]
    X = np.full((len(shifts), *B.shape), np.nan)
    condition = np.full((len(shifts), n), np.inf)
    diagonal = np.diagonal(M, axis1=1, axis2=2)[:, None, :] + shifts[:, None]
    positive = diagonal > 0
    scales = 1.0 / np.sqrt(np.where(positive, diagonal, 1.0))  # (n, U, p)
    known = positive.all(axis=-1)
    room = max(1, CACHE_BYTES // (8 * p * p + 1))
    n_shifts, n_matrices = min(len(shifts), room), max(1, room // max(1, len(shifts)))
    scaled = np.empty((min(n, n_matrices), n_shifts, p, p))
    for first, start in product(range(0, n, n_matrices), range(0, len(shifts), n_shifts)):
        some = slice(first, first + n_matrices), slice(start, start + n_shifts)
        scale = scales[some]
        A = scaled[: len(scale), : scale.shape[1]]
        np.multiply(M[some[0], None], scale[..., None], out=A)
        A *= scale[..., None, :]
        np.einsum("ijkk->ijk", A)[:] = 1.0
        for k, u in np.argwhere(known[some]).tolist():
            i, j = first + k, start + u
            will_do = j > 0 and condition[0, i] <= enough
            factor, found = _cholesky(A[k, u], with_condition=not will_do)
            if factor is not None:
                condition[j, i] = condition[0, i] if will_do else found
                X[j, i] = lapack.dpotrs(factor, scales[i, j][:, None] * B[i])[0]
    X *= np.swapaxes(scales, 0, 1)[..., None]
    return X, condition


def _cholesky(own, *, with_condition):
    """A Cholesky factor in place of a matrix, or None; and the condition number on request."""
    norm = lapack.dlange("1", own.T) if with_condition else None
    factor, info = lapack.dpotrf(own.T, lower=0, clean=0, overwrite_a=1)
    if info != 0 or not with_condition:
        return (factor if info == 0 else None), np.inf
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="U")
    return factor, 1.0 / reciprocal if reciprocal > 0 else np.inf


@dataclass(frozen=True)
class SpdFactors:
    """Factors of symmetric positive definite matrices in CPU memory: `solve_spd` side after side.

    Attributes
    ----------
    factors : list of K ndarrays (p, p), or None
        Of the matrices, scaled to a unit diagonal; None where a factorisation broke down.
    scales : ndarray (K, p)
    condition : ndarray (K,)
        As of `solve_spd`.
    """

    factors: list[np.ndarray | None]
    scales: np.ndarray
    condition: np.ndarray

    @classmethod
    def of(cls, A: np.ndarray) -> "SpdFactors":
        """Of matrices (K, p, p)."""
        diagonal = np.diagonal(A, axis1=1, axis2=2)
        positive = diagonal > 0
        scales = 1.0 / np.sqrt(np.where(positive, diagonal, 1.0))
        scaled = A * scales[:, :, None]
        scaled *= scales[:, None, :]
        np.einsum("kjj->kj", scaled)[:] = 1.0
        known = np.atleast_1d(positive.all(axis=1))
        with threads_for_order(A.shape[-1]):
            found = [
                _cholesky(own, with_condition=True) if some else (None, np.inf)
                for own, some in zip(scaled, known, strict=True)
            ]
        return cls([factor for factor, _ in found], scales, np.asarray([c for _, c in found]))

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Solutions of sides (K, p) or (K, p, t), one or some for each matrix; all have factors."""
        scales = self.scales if B.ndim == 2 else self.scales[:, :, None]
        found = scales * B
        for k, factor in enumerate(self.factors):
            found[k] = lapack.dpotrs(factor, found[k])[0]
        found *= scales
        return found


def _solve_scaled(A, B, xp):
    # The batched inverse costs more products than a factorisation but is one call everywhere, and
    # gives the condition number exactly. The correction step restores a small residual.
    inverse = _inverse(A, xp)
    X = inverse @ B
    X = X + inverse @ (B - A @ X)
    return X, _norm1(A, xp) * _norm1(inverse, xp)


def _inverse(A, xp):
    try:
        return xp.linalg.inv(A)
    except Exception as error:
        if not is_singular(error):
            raise
        if A.ndim == 2:
            return xp.full_like(A, float("nan"))
        return xp.stack([_inverse(A[i, ...], xp) for i in range(A.shape[0])])


def _norm1(A, xp):
    return xp.max(xp.sum(xp.abs(A), axis=-2), axis=-1)


# CuPy gives one row, or one column, of a reduction to one block of threads.
SHORT_ROW = 2**13
ROWS_OF_BLOCK = 2**10


def along_rows(reduce: Callable[..., Array], x: Array, xp: Any, **options: Any) -> Array:
    """``reduce(x, axis=-1, **options)``, of a reduction that may be made in parts.

    For CuPy, few long rows are cut into many short ones: so that all of a GPU has work.
    """
    if x.shape[-1] < 2 * SHORT_ROW or not type(x).__module__.startswith("cupy"):
        return reduce(x, axis=-1, **options)
    return _in_short_rows(reduce, x, xp, options)


def column_sums(x: Array, xp: Any) -> Array:
    """Float64 sums of the columns of a matrix (n, p)."""
    if is_numpy(x):
        return np.add.reduce(x, axis=0, dtype=np.float64)
    block = max(ROWS_OF_BLOCK, math.isqrt(x.shape[0]))
    is_cupy = type(x).__module__.startswith("cupy")
    if x.shape[0] < 2 * block or x.shape[1] == 0 or not is_cupy:
        return xp.sum(x, axis=0, dtype=xp.float64)
    return _sums_of_blocks(x, block, xp)


def column_moments(x: Array, xp: Any) -> tuple[Array, Array]:
    """Means and variances of the columns of a matrix (n, p).

    Those of NumPy's arrays are its own: scikit-learn's tolerances, to the last bit.
    """
    if is_numpy(x):
        return xp.mean(x, axis=0), xp.var(x, axis=0)
    mean = column_sums(x, xp) / x.shape[0]
    away = x - xp.astype(mean, x.dtype, copy=False)
    return mean, column_sums(away * away, xp) / x.shape[0]


def _sums_of_blocks(x, block, xp):
    """Sums of columns, from those of blocks of rows, which a GPU makes side by side."""
    n_rows, n_columns = x.shape
    end = n_rows // block * block
    parts = xp.sum(xp.reshape(x[:end, :], (-1, block, n_columns)), axis=1, dtype=xp.float64)
    total = xp.sum(parts, axis=0)
    return total if end == n_rows else total + xp.sum(x[end:, :], axis=0, dtype=xp.float64)


def _in_short_rows(reduce, x, xp, options):
    n_short = x.shape[-1] // SHORT_ROW
    end = n_short * SHORT_ROW
    short = xp.reshape(x[..., :end], (*x.shape[:-1], n_short, SHORT_ROW))
    parts = reduce(short, axis=-1, **options)
    if end < x.shape[-1]:
        rest = reduce(x[..., end:], axis=-1, **options)
        parts = xp.concat([parts, rest[..., None]], axis=-1)
    return reduce(parts, axis=-1, **options)


def all_finite(x: Array, xp: Any) -> bool:
    """Whether no element is nan or infinite; one number comes to CPU memory."""
    # One pass without temporary arrays. If the sum overflows, each number is checked.
    if _sums_fast(x) and math.isfinite(float(xp.sum(x))):
        return True
    return all_true(xp.isfinite(x), xp)


def all_true(flags: Array, xp: Any) -> bool:
    """Whether all of some flags are True; one number comes to CPU memory."""
    # CuPy brings kernels for extrema of numbers. For `all` and `any` it compiles some, on a new
    # machine for five seconds each.
    if is_cupy(flags) and flags.size > 0:
        return bool(flags.view("uint8").min())
    return bool(xp.all(flags))


def any_true(flags: Array, xp: Any) -> bool:
    """Whether any of some flags is True; one number comes to CPU memory."""
    if is_cupy(flags) and flags.size > 0:
        return bool(flags.view("uint8").max())
    return bool(xp.any(flags))


def _sums_fast(x):
    """Whether all numbers are summed by all of a GPU."""
    if not type(x).__module__.startswith("cupy") or x.dtype.kind != "f":
        return False
    return x.flags.c_contiguous or x.flags.f_contiguous
