"""Quadratic problems with an l1 penalty, and their solution where the signs are known."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays import Array, device_of, is_numpy, to_host
from gpuml._arrays.ops import EPS
from gpuml._arrays.threads import threads_for_order
from gpuml.penalties import Penalty

# Bound on the workspace of a batch of matrices.
DEVICE_BYTES = 2**30
# Supports up to this size share a batch.
SMALL = 32
# Added to a unit diagonal whose matrix is singular; refinement takes its effect out again.
DAMPING = 1e-10
# A pivot below this says that the matrix is singular for all practical purposes.
SMALLEST_PIVOT = 1e-6
REFINEMENTS = 2
# Bound on what is kept of factors.
FACTOR_BYTES = 2**28


@dataclass(frozen=True)
class Factor:
    """``(H + l2)_AA`` of one model, of NumPy arrays, as a Cholesky factor.

    Attributes
    ----------
    cholesky : ndarray (a, a)
    matrix : ndarray (a, a) or None
        What was damped before it was factored, as it is singular; None for the others.
    """

    cholesky: np.ndarray
    matrix: np.ndarray | None = None

    @classmethod
    def of(cls, H: np.ndarray, A: np.ndarray, l2: np.ndarray) -> "Factor":
        """Of the rows and columns A of H."""
        matrix = H[np.ix_(A, A)]
        diagonal = np.diag_indices(len(A))
        matrix[diagonal] += l2
        factor, info = lapack.dpotrf(matrix.T, lower=0, clean=0)
        if info == 0 and factor[diagonal].min() > SMALLEST_PIVOT:
            return cls(factor)
        damped = matrix.copy()
        damped[diagonal] += DAMPING
        factor, info = lapack.dpotrf(damped.T, lower=0, clean=0)
        if info:
            damped[diagonal] += 1e-6
            factor, info = lapack.dpotrf(damped.T, lower=0, clean=0)
        return cls(factor, matrix)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return self.cholesky.nbytes + (0 if self.matrix is None else self.matrix.nbytes)

    def solved(self, rhs: np.ndarray) -> tuple[np.ndarray, bool]:
        """u_A, and whether it solves the system.

        Where the system has no solution, u_A is long, and of a direction along which the quadratic
        falls without an end.
        """
        u = lapack.dpotrs(self.cholesky, rhs)[0]
        if self.matrix is None:
            return u, True
        for _ in range(REFINEMENTS):
            u += lapack.dpotrs(self.cholesky, rhs - self.matrix @ u)[0]
        left = np.abs(rhs - self.matrix @ u).max()
        return u, left <= _allowed(np.abs(u).sum(), np.abs(rhs).max())


class Factors:
    """Factors of matrices H, by the support that they are of: steps with one H repeat supports."""

    def __init__(self):
        self._known: dict[Any, Factor] = {}
        self._bytes = 0

    def of(self, number: int, H: np.ndarray, A: np.ndarray, l2: np.ndarray) -> Factor:
        """That of the matrix of some number, which is always the same one."""
        key = (int(number), A.tobytes(), l2.tobytes())
        found = self._known.get(key)
        if found is None:
            found = Factor.of(H, A, l2)
            if self._bytes + found.nbytes > FACTOR_BYTES:
                self._known, self._bytes = {}, 0
            self._known[key] = found
            self._bytes += found.nbytes
        return found


@dataclass(frozen=True)
class Quadratic:
    """``v'Hv/2 - g'v + sum_j (l1_j |v_j| + l2_j v_j^2/2)`` with a unit diagonal of H.

    H (B, p, p); g, l1 and l2 (B, m, p); `dead` marks coordinates that stay at zero; `factors` are
    what is known of H with NumPy.
    """

    H: Array
    g: Array
    penalty: Penalty
    dead: Array
    factors: Factors = field(default_factory=Factors)

    def relative_violation(self, v, xp, slope=None):
        """Largest violation of the optimality conditions (B, m), relative to the largest of g."""
        slope = times(self, v) - self.g if slope is None else slope
        found = xp.where(self.dead, xp.zeros_like(v), self.penalty.violation(v, slope, xp))
        return xp.max(found, axis=-1) / self.size(xp)

    def size(self, xp):
        """The largest of g (B, m); one where all are zero."""
        largest = xp.max(xp.abs(self.g), axis=-1)
        return xp.where(largest > 0, largest, xp.ones_like(largest))

    def limit(self, v, tol, xp):
        """The relative violation (B, m) to stop at: `tol`, or what rounding leaves at v."""
        rounding = 4 * EPS * (1 + xp.sum(xp.abs(v), axis=-1) / self.size(xp))
        return xp.where(rounding > tol, rounding, xp.full_like(rounding, tol))


def times(problem: Quadratic, v: Array) -> Array:
    """``(H + l2) v`` for v (B, m, p)."""
    return v @ problem.H + problem.penalty.l2 * v


def solve_on(problem: Quadratic, mask: Array, rhs: Array, todo: np.ndarray, xp):
    """Solve ``(H + l2)_AA u_A = rhs_A`` on the coordinates A of each model, and u = 0 elsewhere.

    Parameters
    ----------
    problem : Quadratic
    mask : bool array (B, m, p)
        A.
    rhs : array (B, m, p)
    todo : bool ndarray (B, m), host
        Which models; the rest get zeros.

    Returns
    -------
    u : array (B, m, p)
    solved : bool array (B, m)
        False where the system is singular and has no solution to the precision of its matrix.
    """
    if is_numpy(rhs):
        return _solve_each(problem, mask, rhs, todo)
    return _solve_masked(problem, mask, rhs, todo, xp)


def _solve_each(problem, mask, rhs, todo):
    u, solved = np.zeros(rhs.shape), np.ones(todo.shape, dtype=bool)
    with threads_for_order(rhs.shape[-1]):
        for b, m in np.argwhere(todo):
            A = np.flatnonzero(mask[b, m])
            if len(A):
                factor = problem.factors.of(b, problem.H[b], A, problem.penalty.l2[b, m, A])
                u[b, m, A], solved[b, m] = factor.solved(rhs[b, m, A])
    return u, solved


def _allowed(size, side):
    return 1e-12 * side + 8 * EPS * size


def _solve_masked(problem, mask, rhs, todo, xp):
    """The same in few calls: models of similar support share a batch of matrices of its size."""
    B, m, p = rhs.shape
    device = device_of(rhs)
    chosen = np.flatnonzero(todo.ravel())
    mask, rhs, l2 = (xp.reshape(a, (B * m, p)) for a in (mask, rhs, problem.penalty.l2))
    sizes = to_host(xp.sum(xp.astype(mask, xp.int64), axis=-1))[chosen]
    chosen = chosen[np.argsort(sizes, kind="stable")]
    sizes = np.sort(sizes)
    found, fine = [], []
    for start, stop in _batches(sizes):
        models = chosen[start:stop]
        index = xp.asarray(models, device=device)
        rows = xp.asarray(models // m, device=device)
        largest = max(1, int(sizes[stop - 1]))
        support, b, ridge = (xp.take(a, index, axis=0) for a in (mask, rhs, l2))
        u, solved = _solve_batch(problem.H, rows, support, b, ridge, largest, xp)
        found.append(u)
        fine.append(solved)
    zero = xp.zeros_like(rhs[:1, :])
    position = np.full(B * m, len(chosen))
    position[chosen] = np.arange(len(chosen))
    position = xp.asarray(position, device=device)
    u = xp.take(xp.concat([*found, zero], axis=0), position, axis=0)
    solved = xp.take(xp.concat([*fine, zero[:, 0] == 0], axis=0), position, axis=0)
    return xp.reshape(u, (B, m, p)), xp.reshape(solved, (B, m))


def _batches(sizes):
    """Runs of ascending sizes, the largest at most twice the smallest, in bounded memory."""
    start = 0
    while start < len(sizes):
        stop = int(np.searchsorted(sizes, max(SMALL, 2 * sizes[start]), side="right"))
        stop = min(stop, start + max(1, DEVICE_BYTES // int(8 * 4 * sizes[stop - 1] ** 2 + 1)))
        yield start, stop
        start = stop


def _solve_batch(H, rows, mask, rhs, l2, size, xp):
    """Solutions (K, p) on supports of at most `size`; rows (K,) says whose H each model has.

    Beyond the support of a model, rows and columns are those of the identity: one inverse serves
    all models of the batch.
    """
    p = rhs.shape[-1]
    device = device_of(rhs)
    order = xp.argsort(xp.astype(~mask, xp.int64), axis=-1, stable=True)  # the support comes first
    support = order[:, :size]
    inside, b, l2 = (xp.take_along_axis(a, support, axis=-1) for a in (mask, rhs, l2))
    b = xp.where(inside, b, xp.zeros_like(b))[..., None]
    place = (rows[:, None, None] * p + support[:, :, None]) * p + support[:, None, :]
    A = xp.reshape(xp.take(xp.reshape(H, (-1,)), xp.reshape(place, (-1,))), place.shape)
    eye = xp.eye(size, dtype=xp.float64, device=device)
    both = inside[:, :, None] & inside[:, None, :]
    diagonal = xp.where(inside, l2, xp.ones_like(l2))[:, :, None] * eye
    A = xp.where(both, A, xp.zeros_like(A)) + diagonal
    inverse = xp.linalg.inv(A + DAMPING * eye)
    u = inverse @ b
    for _ in range(REFINEMENTS + 1):
        u = u + inverse @ (b - A @ u)
    left = xp.max(xp.abs(b - A @ u), axis=(-2, -1))
    solved = left <= _allowed(xp.sum(xp.abs(u), axis=(-2, -1)), xp.max(xp.abs(b), axis=(-2, -1)))
    # Back to all coordinates: where in the support each one is.
    u = xp.concat(
        [u[..., 0], xp.zeros((u.shape[0], p - size), dtype=xp.float64, device=device)], axis=-1
    )
    u = xp.take_along_axis(u, xp.argsort(order, axis=-1), axis=-1)
    return xp.where(mask, u, xp.zeros_like(u)), solved
