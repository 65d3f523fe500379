"""Systems ``(M + s I) x = b`` of one symmetric matrix and many shifts s.

One reduction of M to tridiagonal form, ``M = Q T Q'``, serves all shifts: what is left of each are
tridiagonal systems. It costs about as much as `TRIDIAGONAL_FROM` Cholesky factorisations, and a
third of an eigendecomposition, which would go on to find what no shift asks for [1]_.

References
----------
.. [1] G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th ed. (2013), chapter 8.
"""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import Array, is_numpy
from gpuml._arrays.ops import constant
from gpuml._arrays.threads import threads_for_order

# With so many shifts, a tridiagonal form costs less than a Cholesky factorisation per shift.
TRIDIAGONAL_FROM = 8
# Smaller matrices are decomposed in the time of the calls that a tridiagonal form takes.
TRIDIAGONAL_FROM_ORDER = 20
# Reflectors that `dsytrd` applies at once: more take longer at all orders up to some hundreds.
REFLECTORS = 8
# The same of inverses from Cholesky factors, next to an eigendecomposition.
EIGEN_FROM = 7
# Up to this order, to multiply many columns by the matrix takes less time than to reflect them.
MATRIX_TO_ORDER = 64


def solve_by_tridiagonal(
    M: np.ndarray, shifts: np.ndarray, B: np.ndarray, enough: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve ``(M_s + u I) X = B_s`` for all shifts u.

    Parameters
    ----------
    M : ndarray (S, p, p), float64
        Symmetric, positive semidefinite.
    shifts : ndarray (U,)
    B : ndarray (S, p, t)
    enough : float
        A condition number that will do.

    Returns
    -------
    X : ndarray (U, S, p, t)
        nan where a system is not positive definite.
    smallest, largest : ndarrays (U, S)
        The smallest eigenvalue, or a lower bound if that shows that the condition is `enough`; and
        an upper bound on the largest, at most three times as large.
    """
    S, p, t = B.shape
    X = np.empty((len(shifts), S, p, t))
    diagonals, beside = np.empty((S, p)), np.zeros((S, p))
    with threads_for_order(p):
        for s in range(S):
            if p == 1:
                X[:, s] = B[s] / (M[s] + shifts[:, None, None])
                diagonals[s] = M[s, 0]
                continue
            reduced, diagonal, off, tau, _ = lapack.dsytrd(M[s].T, lower=1, lwork=REFLECTORS * p)
            # Reflector i begins at row i + 1, so that those of rows 1, 2, ... are of a QR.
            reflectors, tau = np.asfortranarray(reduced[1:, : p - 1]), tau[: p - 1]
            side = _rotated(reflectors, tau, B[s], "T")
            solved = _solved_tridiagonal(diagonal, off, shifts, side)
            flat = _rotated(reflectors, tau, solved.reshape(p, -1))
            X[:, s] = flat.reshape(p, len(shifts), t).transpose(1, 0, 2)
            diagonals[s], beside[s, :-1] = diagonal, off
    largest = _largest_row_sums(diagonals, beside)
    smallest = _smallest_values(diagonals, beside, largest, shifts.min(), enough)
    return X, smallest + shifts[:, None], largest + shifts[:, None]


def _largest_row_sums(diagonals, beside):
    """The largest sums (S,) of magnitudes of a row, which no eigenvalue exceeds."""
    sums, beside = np.abs(diagonals), np.abs(beside)
    sums += beside
    sums[:, 1:] += beside[:, :-1]
    return sums.max(axis=1)


def _smallest_values(diagonals, beside, largest, shift, enough):
    """The smallest eigenvalues (S,), or lower bounds on all of them if those are `enough`."""
    if enough > 0:
        # One factorisation, of all side by side: it breaks down where a bound is none. A thousandth
        # is left for rounding.
        bound = 1.001 * (largest + shift) / enough - shift
        *_, info = lapack.dpttrf((diagonals - bound[:, None]).ravel(), beside.ravel()[:-1])
        if info == 0:
            return bound
    # Range 2 names eigenvalues by their numbers, from 1 on.
    return np.asarray(
        [
            lapack.dstebz(diagonal, off[: max(1, len(off) - 1)], 2, 0.0, 1.0, 1, 1, 0.0, "E")[1][0]
            for diagonal, off in zip(diagonals, beside, strict=True)
        ]
    )


def _solved_tridiagonal(diagonal, off, shifts, side):
    """Solutions (p, U, t) of tridiagonal systems with all shifts; nan of those not definite.

    Side by side they are one system with zeros between them: one call instead of many.
    """
    p, t = side.shape
    shifted = diagonal + shifts[:, None]
    between, sides = np.zeros(shifted.shape), np.empty((t, *shifted.shape))
    between[:, :-1], sides[:] = off, side.T[:, None]
    *_, found, info = lapack.dptsv(
        shifted.ravel(),
        between.ravel()[:-1],
        sides.reshape(t, -1).T,
        overwrite_e=1,
        overwrite_b=1,
    )
    if info == 0:
        return found.T.reshape(sides.shape).T
    solved = np.full((p, len(shifts), t), np.nan)
    for u, own in enumerate(shifted):
        *_, found, info = lapack.dptsv(own, off, side)
        if info == 0:
            solved[:, u, :] = found
    return solved


def _rotated(reflectors, tau, values, trans="N"):
    """``Q values`` or ``Q' values`` (p, m): the first row stays what it is."""
    p, m = values.shape
    if trans == "N" and p <= min(m, MATRIX_TO_ORDER):
        rest = lapack.dorgqr(reflectors, tau, 64 * p)[0] @ values[1:]
    else:
        rest = lapack.dormqr("L", trans, reflectors, tau, np.asfortranarray(values[1:]), 64 * m)[0]
    return np.concatenate([values[:1], rest])


def inverses_applied(M: Array, shifts: np.ndarray, B: Array, xp: Any) -> tuple[Array, Array]:
    """Products of ``(M + u I)^{-1}`` with B (n, t) for all shifts u, (U, n, t); diagonals (U, n).

    M (n, n) is symmetric, positive semidefinite; shifts are positive.
    """
    if is_numpy(M) and len(shifts) < EIGEN_FROM:
        found = _inverses_by_cholesky(M, shifts, B)
        if found is not None:
            return found
    with threads_for_order(M.shape[-1]):
        values, vectors = xp.linalg.eigh(M)
    values = xp.where(values > 0, values, xp.zeros_like(values))
    gain = 1.0 / (values + constant(shifts, like=M, xp=xp)[:, None])  # (U, n)
    return vectors @ (gain[:, :, None] * (vectors.T @ B)), gain @ (vectors**2).T


def _inverses_by_cholesky(M, shifts, B):
    """The same; None where rounding has left a matrix that is not positive definite."""
    n = len(M)
    products, diagonals = np.empty((len(shifts), *B.shape)), np.empty((len(shifts), n))
    with threads_for_order(n):
        for u, shift in enumerate(shifts):
            A = M.copy()
            A.reshape(-1)[:: n + 1] += shift
            factor, info = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
            if info != 0:
                return None
            products[u] = lapack.dpotrs(factor, B, lower=1)[0]
            inverse = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
            # (L L')^{-1} = L^{-T} L^{-1}
            diagonals[u] = np.einsum("ij,ij->j", inverse, inverse)
    return products, diagonals
