"""Products ``Z' Z`` of rows of features, targets and a one, added up block by block."""

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas

from gpuml._arrays import Array, device_of, is_numpy
from gpuml._arrays.ops import along_rows

# Rows of a triangle that are mirrored at once.
TRIANGLE_ROWS = 128


def design(X: Array, y: Array, weight: Array | None, shift: Array, xp: Any) -> Array:
    """Rows ``sqrt(w) [X - shift_x, y - shift_y, 1]`` in float64, shape (n, p + t + 1)."""
    n_rows, p, q = X.shape[0], X.shape[1], shift.shape[0] + 1
    if is_numpy(X) or type(X).__module__.startswith("cupy"):
        # One read and one write: the subtraction also casts.
        Z = xp.empty((n_rows, q), dtype=xp.float64)
        xp.subtract(X, shift[:p], out=Z[:, :p])
        xp.subtract(y, shift[p:], out=Z[:, p:-1])
        Z[:, -1] = 1.0
        if weight is not None:
            Z *= xp.sqrt(xp.astype(weight, xp.float64))[:, None]
        return Z
    f64 = xp.float64
    ones = xp.ones((n_rows, 1), dtype=f64, device=device_of(X))
    parts = [xp.astype(X, f64) - shift[:p], xp.astype(y, f64) - shift[p:], ones]
    Z = xp.concat(parts, axis=1)
    return Z if weight is None else Z * xp.sqrt(xp.astype(weight, f64))[:, None]


def add_gram(total: Array, Z: Array) -> Array:
    """``total + Z' Z``; NumPy fills one triangle of `total` in place (see `full_symmetric`)."""
    if is_numpy(Z):
        # C-ordered Z and total are Fortran-ordered transposes to BLAS: nothing is copied, half of
        # the products are skipped. The upper triangle of total.T is the lower one of total.
        blas.dsyrk(1.0, Z.T, beta=1.0, c=total.T, overwrite_c=1)
        return total
    return total + Z.T @ Z


def own_products(Z):
    """``Z' Z``, or its lower triangle: f2py would copy rows in another order."""
    if is_numpy(Z) and Z.dtype == np.float64 and Z.flags.c_contiguous:
        return blas.dsyrk(1.0, Z.T).T
    return Z.T @ Z


def add_gram_of_rows(
    total: np.ndarray, X: np.ndarray, y: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """As `add_gram` of ``[X, y - d, 1]``, of NumPy rows: of features whose shift is 0.

    No copy of the rows: a few columns beside them are worth a product with each of them.
    """
    p = X.shape[1]
    rest = np.empty((len(X), len(total) - p), dtype=X.dtype)
    np.subtract(y, shift[p:].astype(X.dtype), out=rest[:, :-1])
    rest[:, -1] = 1.0
    total[:p, :p] += own_products(X)
    total[p:, :p] += rest.T @ X
    total[p:, p:] += rest.T @ rest
    return total


def add_gram_apart(
    total: Array, X: Array, y: Array, weight: Array | None, shift: Array, xp: Any
) -> Array:
    """As `add_gram` of `design`, without the products of two targets.

    Of many targets, their products are most of the work, and their copies in the order of rows most
    of what is left: here they stay in the order that they have. NumPy copies neither them nor
    features whose shift is 0.
    """
    p, q = X.shape[1], shift.shape[0] + 1
    plain = is_numpy(X) and X.dtype == y.dtype == np.float64 and weight is None
    if not (plain and not shift[p:].any()):
        y = xp.astype(y, xp.float64, copy=False) - shift[p:]
    if weight is not None:
        y = y * xp.sqrt(xp.astype(weight, xp.float64))[:, None]
    rows = y.T
    if plain and not shift[:p].any():
        one = np.ones(len(X))
        features, targets, x_sums, y_sums = own_products(X), rows @ X, one @ X, rows @ one
        sum_of_weights: Any = len(X)
    else:
        Z = design(X, y[:, :0], weight, shift[:p], xp)
        own, both = own_products(Z), rows @ Z
        features, targets, x_sums, y_sums = own[:p, :p], both[:, :p], own[-1, :p], both[:, -1]
        sum_of_weights = own[-1, -1]
    squares = np.vecdot(rows, rows) if is_numpy(y) else along_rows(xp.sum, rows * rows, xp)
    total[:p, :p] += features
    total[p:-1, :p] += targets
    total[:p, p:-1] += targets.T
    xp.reshape(total, (-1,))[p * (q + 1) : -1 : q + 1] += squares
    for border in (total[-1, :], total[:, -1]):
        border[:p] += x_sums
        border[p : q - 1] += y_sums
    total[-1, -1] += sum_of_weights
    return total


def add_single_gram(
    total: np.ndarray, X: np.ndarray, y: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """As `add_gram` of ``[X - c, y - d, 1]``, with products in float32, of float32 NumPy rows."""
    p, single = X.shape[1], shift.astype(np.float32)
    Z = np.empty((len(X), len(total)), dtype=np.float32)
    np.subtract(X, single[:p], out=Z[:, :p])
    np.subtract(y, single[p:], out=Z[:, p:-1])
    Z[:, -1] = 1.0
    total += Z.T @ Z
    return total


def subtract_gram(total: np.ndarray, Z: np.ndarray) -> None:
    """``total -= Z' Z`` for NumPy arrays, in the triangle that `add_gram` fills."""
    blas.dsyrk(-1.0, Z.T, beta=1.0, c=total.T, overwrite_c=1)


def full_symmetric(total: Array, xp: Any) -> Array:
    """Both triangles of a matrix that was summed by `add_gram`; NumPy fills it in place."""
    if not is_numpy(total):
        return total
    for start in range(0, total.shape[-1], TRIANGLE_ROWS):
        rows = slice(start, start + TRIANGLE_ROWS)
        own = total[..., rows, rows]
        above = _above_diagonal(own.shape[-1])
        np.copyto(own, np.swapaxes(own, -1, -2), where=above)
        total[..., :start, rows] = np.swapaxes(total[..., rows, :start], -1, -2)
    return total


@cache
def _above_diagonal(order):
    """Which entries of a matrix are above its diagonal."""
    return np.triu(np.ones((order, order), dtype=bool), 1)
