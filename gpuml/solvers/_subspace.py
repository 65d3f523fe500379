"""A few of many eigenpairs, by subspace iteration with Chebyshev filters.

A block of vectors V is multiplied by a polynomial of A that is at most 1 on the unwanted part of
the spectrum and grows fast beyond it [1]_. Each round is one QR and one small eigenproblem
(Rayleigh-Ritz) after a few dozen thin products, where all eigenpairs would cost thousands of small
kernels. It ends when the residuals ``|A v - l v|`` are what an eigensolver would leave, and gives
up early where the spectrum has no gap to work with.

References
----------
.. [1] Y. Zhou, Y. Saad, M. L. Tiago, J. R. Chelikowsky, "Self-consistent-field calculations using
   Chebyshev-filtered subspace iteration", J. Comput. Phys. 219 (2006).
"""

import numpy as np

from gpuml._arrays import Array, to_host
from gpuml._arrays.ops import EPS, constant

MIN_EXTRA = 8
MIN_DEGREE, MAX_DEGREE = 4, 40
# Thin products with A in all: beyond, a full eigendecomposition would have been done.
MAX_PRODUCTS = 150
MAX_ROUNDS = 8
# One filter may make vectors differ in length by so much; more would drown the shorter ones.
MAX_SPREAD = 1e8
# CuPy's batched routines are made for many matrices of up to this order; one call for each larger
# one is faster.
BATCHED_UP_TO_ORDER = 32
SEED = 20_061_220


def leading_by_iteration(A: Array, n_leading: int, xp) -> tuple[Array, Array] | None:
    """The largest eigenpairs of symmetric positive semi-definite matrices (S, p, p), finite.

    Returns
    -------
    values : array (S, r), descending
    vectors : array (S, r, p)
        Or None in place of the two, where they do not converge in so many products.
    """
    p = A.shape[-1]
    # Of about unit size, so that no square overflows or vanishes.
    scale = xp.max(xp.linalg.diagonal(A), axis=-1)
    scale = xp.where(scale > 0, scale, xp.ones_like(scale))
    A = A / scale[:, None, None]
    width = min(p, max(2 * n_leading, n_leading + MIN_EXTRA))
    start = np.random.default_rng(SEED).standard_normal((p, width))
    V = _orthonormal(A @ constant(start, like=A, xp=xp), xp)
    left = MAX_PRODUCTS
    for _ in range(MAX_ROUNDS):
        V, values, residuals = _rayleigh_ritz(A, V, xp)
        # The one trip to CPU memory in a round.
        ritz, error = to_host(xp.stack([values, residuals]))
        tolerance = p * EPS * ritz[:, :1]
        if (error[:, :n_leading] <= tolerance).all():
            vectors = xp.matrix_transpose(V)[:, :n_leading, :]
            return values[:, :n_leading] * scale[:, None], vectors
        degree = _degree(ritz, error, tolerance, n_leading, left)
        if degree is None:
            return None
        left -= degree
        bound = constant(_bound(ritz), like=A, xp=xp)
        V = _orthonormal(_filtered(A, V, bound[:, None, None], degree, xp), xp)
    return None


def eigh_descending(A: Array, xp) -> tuple[Array, Array]:
    """All eigenvalues (S, p) in descending order, and eigenvectors in columns (S, p, p)."""
    if A.shape[0] > 1 and A.shape[-1] <= BATCHED_UP_TO_ORDER:
        values, vectors = xp.linalg.eigh(A)
    else:
        found = [xp.linalg.eigh(A[s, ...]) for s in range(A.shape[0])]
        values = xp.stack([pair[0] for pair in found])
        vectors = xp.stack([pair[1] for pair in found])
    return xp.flip(values, axis=-1), xp.flip(vectors, axis=-1)


def _orthonormal(V, xp):
    return xp.stack([xp.linalg.qr(V[s, ...])[0] for s in range(V.shape[0])])


def _rayleigh_ritz(A, V, xp):
    """Ritz vectors (S, p, b) in descending order of their values (S, b), and residuals (S, b)."""
    AV = A @ V
    values, turn = eigh_descending(xp.matrix_transpose(V) @ AV, xp)
    V, AV = V @ turn, AV @ turn
    residuals = xp.sqrt(xp.sum((AV - V * values[:, None, :]) ** 2, axis=1))
    return V, values, residuals


def _bound(ritz):
    """Upper end of what is damped, (S,): the smallest Ritz value lies below the last wanted one."""
    return np.maximum(ritz[:, -1], EPS * len(ritz[0]) * np.maximum(ritz[:, 0], EPS))


def _degree(ritz, error, tolerance, n_leading, left):
    """Degree of the next filter; None where the products that are left would not do.

    A filter of degree d multiplies the part of eigenvalue l by ``cosh(d arccosh(2 l / bound - 1))``
    and what is below the bound by at most 1.
    """
    bound = _bound(ritz)
    slowest = np.arccosh(np.maximum(2 * ritz[:, n_leading - 1] / bound - 1, 1.0))
    fastest = np.arccosh(np.maximum(2 * ritz[:, 0] / bound - 1, 1.0))
    short = np.log(2 * error[:, :n_leading].max(axis=1) / tolerance[:, 0])
    with np.errstate(divide="ignore"):
        wanted = (np.maximum(short, 0.0) / slowest).max()
        at_most = (np.log(MAX_SPREAD) / (fastest - slowest)).min()
    if not wanted <= left:
        return None
    return int(min(max(np.ceil(wanted), MIN_DEGREE), MAX_DEGREE, max(at_most, 1)))


def _filtered(A, V, bound, degree, xp):
    """``T_d(2 A / bound - I) V`` with the Chebyshev polynomial T_d, for d >= 1."""
    eye = xp.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    B = A * (2.0 / bound) - eye
    before, now = V, B @ V
    B = 2.0 * B
    for _ in range(degree - 1):
        before, now = now, B @ now - before
    return now
