"""Ridge regression with a kernel: many penalties, splits and targets with one kernel matrix.

    min over c  (y - K c)' W (y - K c) + alpha c' K c      c = S z,  (S K S + alpha I) z = S y

with W = S S, the weights of a split's training rows and 0 for all others. All penalties of a split
and target share Krylov spaces, which no multiple of I changes [1]_: Lanczos' vectors of all splits
take the same readings of K, and for each penalty there is a tridiagonal system. The residual of
each is known at every step without its solution, and so is whether a matrix that is not positive
definite was met. What takes more steps than factors would, because its penalty is tiny next to the
kernel, is factored, a matrix for each split and penalty. Splits that leave out one row each follow
from one inverse for each penalty (`kernel_left_out`).

References
----------
.. [1] A. Frommer, P. Maass, "Fast CG-based methods for Tikhonov-Phillips regularization",
   SIAM Journal on Scientific Computing 20 (1999).
"""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from gpuml._arrays import Array, free_bytes, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import any_true, constant, solve_shifted
from gpuml._arrays.threads import one_blas_thread, ordered_map
from gpuml.data import cut
from gpuml.solvers._blocks import quiet
from gpuml.solvers.kernel_left_out import LeftOut
from gpuml.solvers.loss_rows import own_threads

EPS = float(np.finfo(np.float64).eps)
# Residuals next to S y, times the root of the penalty next to the mean of the diagonal of K: with
# it, predictions are off by a share of this at most.
TOLERANCE = 1e-10
# Penalties that are smaller next to the largest eigenvalue leave few digits to agree in.
LEAST_PENALTY = 1e-12
# A vector with so little that is new is rounding: the space is complete.
NOTHING_NEW = 1e-13
# The time to read an entry of K, in multiplications, and to factor a matrix, in products of its
# order.
READING = 32.0
FACTORS = 0.5
# Vectors may always take so many bytes, even if less memory seems free.
LEAST_ROOM = 2**26
# An inverse per penalty, with refinement, replaces so many iterative steps. It takes as long as so
# many products of matrices of the order of K; with fewer splits it does not pay.
USUAL_STEPS = 64
INVERSE = 8
MANY_SPLITS = 20
# So many steps run between two checks, during which a device does not wait.
STEPS_AT_ONCE = 8
# Steps that a space of the dimension of the rank of K takes in spite of rounding, and one more.
MORE_THAN_RANK = 4
# The share of the time of factors that steps may take before they are given up.
WORTH = 0.5


@dataclass(frozen=True)
class Systems:
    """What is solved: K (n, n) in float64, roots of weights (S, n), and targets y (n, t).

    `rank` is a bound on that of K, if one is known.
    """

    K: Array
    roots: Array
    y: Array
    rank: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Splits, rows, targets."""
        return *self.roots.shape, self.y.shape[1]


@dataclass(frozen=True)
class Solved:
    """Dual coefficients (C, S, n, t), how often K was read for them, and what was factored.

    Of matrices that were factored there are condition numbers: inf where one is not positive
    definite, and a least-squares solution was taken.
    """

    dual: Array
    n_steps: int
    conditions: np.ndarray


def solve_penalties(systems: Systems, alphas: np.ndarray) -> Solved:
    """Models of penalties (C, 1) or (C, t), each of one target, on all splits."""
    S, n, t = systems.shape
    alphas = np.broadcast_to(alphas, (len(alphas), t))
    xp, solved = namespace(systems.K), np.zeros((len(alphas), S), dtype=bool)
    dual, n_steps, conditions = None, 0, [np.zeros(0)]
    left_out = _worthwhile_left_out(systems, alphas)
    if left_out is not None:
        enough = np.reshape(_enough(systems, alphas), (S, t, -1))
        dual, solved, found = left_out.solutions(systems.K, systems.y, alphas, enough)
        conditions.append(found)
    else:
        steps = _worthwhile_steps(systems, alphas)
        if steps:
            dual, solved, n_steps = _by_steps(systems, alphas, steps)
    if dual is None:
        dual = xp.zeros((len(alphas), S, n, t), dtype=xp.float64, device=place_of(systems.K).device)
    for split in range(S):
        left = np.flatnonzero(~solved[:, split])
        if len(left):
            conditions.append(_factored(systems, alphas, split, left, dual))
    return Solved(dual, n_steps, np.concatenate(conditions))


def _worthwhile_left_out(systems, alphas):
    """Splits that leave out one row each, where an inverse for each penalty pays; else None."""
    S, n, t = systems.shape
    if S < MANY_SPLITS or INVERSE * len(np.unique(alphas)) * n > USUAL_STEPS * (READING + S * t):
        return None
    return LeftOut.of(systems.roots)


def _worthwhile_steps(systems, alphas):
    """How many steps take no longer than the share of the time of factors; 0 for too few."""
    S, n, t = systems.shape
    columns = S * t
    factors = S * len(np.unique(alphas)) * n**3 / 3 / FACTORS
    each, more = n**2 * (READING + columns), 2.0 * columns * n
    # each k + more k^2 = WORTH factors
    steps = (np.sqrt(each**2 + 4 * more * WORTH * factors) - each) / (2 * more)
    if systems.rank is not None and alphas.min() > 0:  # the space is complete then
        sure = systems.rank + MORE_THAN_RANK
        steps = sure if steps < sure and (each + more * sure) * sure < factors else steps
    room = max(LEAST_ROOM, free_bytes(place_of(systems.K)) // 4) // (8 * columns * n)
    steps = int(min(steps, room, n))
    return steps if steps >= STEPS_AT_ONCE else 0


# ---------------------------------------------------------------- Lanczos


def _by_steps(systems, alphas, most):
    """Dual coefficients, which candidates on which splits have them, and the number of steps."""
    S, n, t = systems.shape
    xp, on_cpu = namespace(systems.K), is_numpy(systems.K)
    roots = xp.reshape(xp.broadcast_to(systems.roots[:, None, :], (S, t, n)), (S * t, n))
    sides = xp.reshape(systems.roots[:, None, :] * systems.y.T[None, ...], (S * t, n))
    shifts = np.tile(alphas.T, (S, 1))  # (S t, C)
    enough = _enough(systems, alphas)
    length = xp.sqrt(xp.sum(sides * sides, axis=1))
    table = Tridiagonal(to_host(length), shifts)
    V = xp.zeros((S * t, most + 1, n), dtype=xp.float64, device=place_of(systems.K).device)
    V[:, 0, :] = sides / xp.where(length > 0, length, 1.0)[:, None]
    step, threads = 0, own_threads(place_of(systems.K))
    # Threads of BLAS would wait for each other in each of many products that take milliseconds.
    with one_blas_thread() if on_cpu else nullcontext():
        while step < most and not table.is_done(enough):
            found = []
            for _ in range(min(STEPS_AT_ONCE, most - step)):
                found.append(_one_step(systems.K, roots, V, step, threads))
                step += 1
            entries = to_host(xp.stack([xp.stack(pair) for pair in found]))
            table.append(*np.moveaxis(entries, 1, 0))
    good = np.reshape(table.are_solved(enough), (S, t, -1)).all(axis=1).T  # (C, S)
    if not good.any():
        return None, good, step
    z = constant(table.solutions(), like=V, xp=xp)  # (S t, C, steps)
    found = (z @ V[:, :step, :]) * roots[:, None, :]
    found = xp.reshape(found, (S, t, len(alphas), n))
    return xp.permute_dims(found, (2, 0, 3, 1)), good, step


def _enough(systems, alphas):
    """Bounds (S t, C) on residuals next to the right-hand sides."""
    S, _, t = systems.shape
    shifts = np.tile(alphas.T, (S, 1))
    return TOLERANCE * np.sqrt(np.minimum(1.0, shifts / _scales(systems, t)))


def _scales(systems, t):
    """Means (S t, 1) of the diagonals of S K S over training rows, in CPU memory."""
    xp, weight = namespace(systems.K), systems.roots**2
    total = weight @ xp.linalg.diagonal(systems.K)
    counts = xp.sum(xp.astype(weight > 0, xp.float64), axis=1)
    scale = np.abs(to_host(total / counts))
    return np.repeat(np.where(scale > 0, scale, 1.0), t)[:, None]


def _one_step(K, roots, V, step, threads):
    """The next vectors, and entries (c,) on and beside the diagonal of the tridiagonal matrices."""
    xp = namespace(K)
    last = V[:, step, :]
    new = _times(K, roots * last, threads) * roots
    size, diagonal = xp.sqrt(xp.sum(new * new, axis=1)), xp.sum(new * last, axis=1)
    before = V[:, : step + 1, :]
    # First against the last two vectors, then against all, which removes what rounding left.
    for vector in (last, V[:, max(step - 1, 0), :]):
        new = new - xp.sum(new * vector, axis=1)[:, None] * vector
    inside = before @ new[..., None]
    new = new - (xp.matrix_transpose(inside) @ before)[:, 0, :]
    beside = xp.sqrt(xp.sum(new * new, axis=1))
    more = beside > NOTHING_NEW * size
    beside = xp.where(more, beside, 0.0)
    V[:, step + 1, :] = new * (xp.astype(more, new.dtype) / xp.where(more, beside, 1.0))[:, None]
    return diagonal, beside


def _times(K, rows, threads):
    """``rows K`` of a symmetric matrix."""
    if threads == 1:
        return rows @ K
    n = K.shape[0]
    runs = cut(slice(0, n), -(-n // threads))
    return np.concatenate(list(ordered_map(lambda run: rows @ K[run].T, runs, threads)), axis=1)


class Tridiagonal:
    """Systems ``(T + shift I) x = length e_1`` of growing tridiagonal matrices, in CPU memory.

    Parameters
    ----------
    length : ndarray (c,)
    shifts : ndarray (c, C)
    """

    def __init__(self, length, shifts):
        self.length, self.shifts = length, shifts
        self.diagonal: list[np.ndarray] = []
        self.beside: list[np.ndarray] = []
        self.pivots: list[np.ndarray] = []
        # Of residuals, next to the right-hand sides.
        self.residual = np.ones(shifts.shape)
        self.definite = np.ones(shifts.shape, dtype=bool)

    def append(self, diagonal, beside):
        """Rows (k, c) more: what is on the diagonal, and behind it."""
        for a, b in zip(diagonal, beside, strict=True):
            pivot = a[:, None] + self.shifts
            if self.pivots:
                pivot = pivot - self.beside[-1][:, None] ** 2 / self.pivots[-1]
            self.definite &= pivot > 0
            pivot = np.where(self.definite, pivot, 1.0)
            self.residual *= b[:, None] / pivot
            for rows, row in zip(
                (self.diagonal, self.beside, self.pivots), (a, b, pivot), strict=True
            ):
                rows.append(row)

    def is_done(self, enough):
        """Whether no further step is of use."""
        return bool(self.pivots) and bool(((self.residual <= enough) | ~self.definite).all())

    def are_solved(self, enough):
        """Which systems (c, C) are solved."""
        if not self.diagonal:
            return np.zeros(self.shifts.shape, dtype=bool)
        largest = np.max(np.abs(self.diagonal), axis=0)[:, None]
        solved = self.definite & (self.residual <= enough)
        return solved & (self.shifts > LEAST_PENALTY * largest)

    def solutions(self):
        """Solutions (c, C, k) of all systems."""
        side = np.broadcast_to(self.length[:, None], self.shifts.shape)
        sides = [side]
        for b, pivot in zip(self.beside[:-1], self.pivots[:-1], strict=True):
            side = -b[:, None] / pivot * side
            sides.append(side)
        x = sides[-1] / self.pivots[-1]
        found = [x]
        for b, pivot, side in zip(
            self.beside[-2::-1], self.pivots[-2::-1], sides[-2::-1], strict=True
        ):
            x = (side - b[:, None] * x) / pivot
            found.append(x)
        return np.stack(found[::-1], axis=-1)


# ---------------------------------------------------------------- factors


def _factored(systems, alphas, split, left, dual):
    """Fill in dual coefficients of some candidates of a split; condition numbers of matrices."""
    xp = namespace(systems.K)
    root = systems.roots[split, :]
    rows = xp.nonzero(root > 0)[0]
    K, root = systems.K, xp.take(root, rows, axis=0)
    if rows.shape[0] < systems.K.shape[0]:
        K = xp.take(xp.take(K, rows, axis=0), rows, axis=1)
    weighted = any_true(root != 1.0, xp)
    if weighted:
        K = root[:, None] * K * root
    sides = xp.take(systems.y, rows, axis=0) * root[:, None]
    penalties, which = np.unique(alphas[left], return_inverse=True)
    found, condition = solve_positive(K, penalties, sides)  # (U, m, t)
    which = which.reshape(len(left), -1)
    for candidate, own in zip(left, which, strict=True):
        if (own == own[0]).all():
            values = found[int(own[0]), ...]
        else:
            values = xp.stack([found[int(u), :, j] for j, u in enumerate(own)], axis=1)
        dual[int(candidate), split, ...] = _at(values * root[:, None], rows, dual.shape[2], xp)
    return condition


def _at(values, rows, n, xp):
    """Values (m, t) at some of n rows (n, t), zeros at others."""
    if rows.shape[0] == n:
        return values
    place = place_of(values)
    number = np.full(n, rows.shape[0])
    number[to_host(rows)] = np.arange(rows.shape[0])
    with_zero = xp.concat([values, xp.zeros_like(values[:1, :])])
    return xp.take(with_zero, move(number, place), axis=0)


def solve_positive(K: Array, alphas: np.ndarray, y: Array) -> tuple[Array, np.ndarray]:
    """Solutions (U, m, t) of ``(K + alpha I) x = y`` for rising penalties, and condition numbers.

    A matrix that is not positive definite, whose condition number is inf, gives a least-squares
    solution.
    """
    xp = namespace(K)
    with quiet():
        found, condition = solve_shifted(K[None, ...], alphas, y[None, ...], xp, enough=1 / EPS)
    found, condition = found[:, 0, ...], to_host(condition)[:, 0]
    condition = np.where(np.isfinite(condition), condition, np.inf)
    for i in np.flatnonzero(np.isinf(condition)):
        found[int(i), ...] = _least_squares(K, float(alphas[i]), y, xp)
    return found, condition


def _least_squares(K, alpha, y, xp):
    eye = xp.eye(K.shape[0], dtype=xp.float64, device=place_of(K).device)
    if is_numpy(K):
        return linalg.lstsq(K + alpha * eye, y)[0]
    return xp.linalg.pinv(K + alpha * eye) @ y
