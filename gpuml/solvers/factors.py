"""Triangular factors of rows: second moments without squaring the condition number.

For rows ``Z = sqrt(w) [X - c, y - d, 1]`` of an atom, R with ``R' R = Z' Z`` comes from Householder
QR of the rows, block after block [1]_. Such factors merge by stacking, once they are about the same
shift: a training part is described by the stacked factors of its atoms. Their relative error is of
the order eps x condition(X), where that of moments is eps x condition(X)^2.

References
----------
.. [1] J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential
   QR and LU factorizations", SIAM J. Sci. Comput. 34 (2012).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, move, namespace
from gpuml._arrays.grams import design
from gpuml._arrays.ops import EPS, all_true, triangular_factor, zeros
from gpuml.data import Batch, Rows, atoms_here
from gpuml.solvers._blocks import Blocks, sum_blocks
from gpuml.solvers.shifts import atom_shifts, mean_shift

# Squares of smaller values lose digits, or all of them.
LEAST_VALUE = 1e-140
# 2 to this power is a number, and so is the square of the other bound.
MOST_POWER = 1000
MOST_ROOT = 1e100
# Up to so much of what it was computed from, a number is rounding.
ROUNDING = 8 * EPS


@dataclass(frozen=True)
class Factors:
    """One factor (r_a, q) per atom, of ``sqrt(w) [X - c, y - d, 1]``, with its shift (c, d)."""

    atoms: tuple[Array, ...]
    shifts: Array
    n_features: int

    def to(self, place: Place) -> "Factors":
        """The same factors at a place."""
        atoms = tuple(move(factor, place) for factor in self.atoms)
        return replace(self, atoms=atoms, shifts=move(self.shifts, place))

    def stack(self, counts: np.ndarray) -> "Stacked":
        """Rows that describe the part in which atom a occurs ``counts[a]`` times."""
        xp = namespace(self.shifts)
        chosen = np.flatnonzero(counts)
        rows = [float(np.sqrt(counts[a])) * self.atoms[a] for a in chosen]
        shifts = xp.stack([self.shifts[int(a), :] for a in chosen])
        weights = xp.stack([xp.sum(each[:, -1] ** 2) for each in rows])
        shift = mean_shift(weights[None, :], shifts, xp)[0, :]
        if len(rows) > 1:
            apart = shifts - shift
            rows = [
                xp.concat([R[:, :-1] + R[:, -1:] * apart[i, :], R[:, -1:]], axis=1)
                for i, R in enumerate(rows)
            ]
        return Stacked(xp.concat(rows, axis=0), shift, self.n_features)


@dataclass(frozen=True)
class Stacked:
    """Rows (m, q) that describe a part as its ``[x - c, y - d, 1]`` would; shift (c, d)."""

    rows: Array
    shift: Array
    n_features: int


@dataclass(frozen=True)
class LeastSquaresRows:
    """Rows A (m, p), b (m, t) of the problem ``min |A w - b|^2``, and the means removed."""

    A: Array
    b: Array
    x_mean: Array
    y_mean: Array


def atom_factors(
    batch: Batch,
    atoms: tuple[Rows, ...],
    *,
    block_bytes: int | None = None,
) -> Factors:
    """Factors of each atom of rows, in one pass; arguments as for `moments.atom_moments`."""
    shifts = atom_shifts(batch, atoms)
    factors = batch.total(_factors, atoms, shifts, block_bytes, combine=merged_factors)
    return Factors(tuple(factors), shifts, batch.n_features)


def merged_factors(upper: list[Array], lower: list[Array]) -> list[Array]:
    """Factors of the same atoms in two sets of rows, as factors of both."""
    return [_merged(*pair) for pair in zip(upper, lower, strict=True)]


def _merged(upper, lower):
    if upper.shape[0] == 0:
        return lower
    xp = namespace(upper)
    rows = xp.concat([upper, lower], axis=0)
    # Fewer rows than columns are their own best description.
    return triangular_factor(rows, xp) if rows.shape[0] > rows.shape[1] else rows


def _factors(folds, atoms, shifts, block_bytes):
    """Factors (r_a, q) of atoms, each about its shift (A, q - 1)."""
    batch, atoms = folds.batch, atoms_here(folds, atoms)
    shifts = move(shifts, batch.work)
    q = shifts.shape[1] + 1
    xp = batch.work.xp
    blocks = Blocks(batch, n_columns=q, block_bytes=block_bytes)
    # Blocks much longer than wide waste little on factoring the running factor again.
    if block_bytes is None:
        rows = max(blocks.rows_per_block, 8 * q)
        blocks = replace(blocks, block_bytes=8 * q * rows)

    def add(total, atom, X, y, weight):
        Z = design(X, y, weight, shifts[atom, :], xp)
        if total.shape[0] == 0:
            return triangular_factor(Z, xp) if Z.shape[0] > q else Z
        return _merged(total, Z)

    def start():
        return zeros((0, q), like=shifts, xp=xp)

    return sum_blocks(blocks, atoms, start, add, _merged)


def centred_rows(stacked: Stacked, fit_intercept: bool) -> LeastSquaresRows:
    """Take the mean out of stacked factors, or the shift where no intercept is fitted."""
    p = stacked.n_features
    if fit_intercept:
        stacked = about_mean(stacked)
        values, mean = stacked.rows[:, :-1], stacked.shift
    else:
        values = stacked.rows[:, :-1] + stacked.rows[:, -1:] * stacked.shift
        mean = namespace(values).zeros_like(stacked.shift)
    return LeastSquaresRows(values[:, :p], values[:, p:], mean[:p], mean[p:])


def about_mean(stacked: Stacked) -> Stacked:
    """The rows about their mean, with zeros for constant columns."""
    xp = namespace(stacked.rows)
    ones, values = stacked.rows[:, -1:], stacked.rows[:, :-1]
    weight = xp.sum(ones**2)
    mean = (xp.matrix_transpose(ones) @ values)[0, :] / weight
    values, mean = values - ones * mean, mean + stacked.shift
    values = without_rounding(values, mean, xp.sqrt(weight), xp)
    return replace(stacked, rows=xp.concat([values, ones], axis=1), shift=mean)


def without_rounding(values: Array, mean: Array, norm: Array, xp: Any) -> Array:
    """Rows (m, q) less their means (q,), with zeros for columns that are constant up to rounding.

    That is rounding; it must not pass for a direction. `norm` is that of a column of ones.
    """
    return above(values, xp.abs(mean) * norm, xp)


def above(values: Array, level: Array, xp: Any) -> Array:
    """Columns (m, q), with zeros for those whose norms are rounding of numbers of a level (q,)."""
    return xp.where(norms_of(values, xp) > ROUNDING * level, values, xp.zeros_like(values))


def norms_of(values: Array, xp: Any) -> Array:
    """Norms (q,) of columns."""
    # Not squares of the values: those of small ones vanish.
    largest = xp.max(xp.abs(values), axis=0)
    unit = xp.where(largest > 0, largest, xp.ones_like(largest))
    return largest * xp.sqrt(xp.sum((values / unit) ** 2, axis=0))


def solve_rows(
    problem: LeastSquaresRows, alphas: np.ndarray, rcond: float | None = None
) -> tuple[Array, np.ndarray]:
    """Minimise ``|A w - b|^2 + alpha |w|^2`` for each alpha.

    Where the augmented rows ``[A; sqrt(alpha) I]`` have full rank, by their QR factorisation, which
    does not mind features of different scales; otherwise, the solution of minimum norm by an SVD.

    Parameters
    ----------
    problem : LeastSquaresRows
    alphas : ndarray (U,), host
    rcond : float, optional
        Given, singular values up to rcond x the largest count as zero, whatever alpha is. None
        leaves out only what rounding has made.

    Returns
    -------
    coef : array (U, t, p)
    unique : bool ndarray (U,), host
        False where the minimum-norm solution was taken.
    """
    factor = enlarging(problem.A)
    if factor == 1.0:
        return _solve_rows(problem, alphas, rcond)
    solved = [_solve_enlarged(problem, alpha, rcond, factor) for alpha in alphas]
    coef = namespace(problem.A).concat([coef for coef, _ in solved])
    return coef, np.concatenate([unique for _, unique in solved])


def enlarging(A: Array) -> float:
    """A power of two that small values are multiplied by so that their squares are numbers."""
    largest = float(namespace(A).max(namespace(A).abs(A))) if 0 not in A.shape else 0.0
    if not 0 < largest < LEAST_VALUE:
        return 1.0
    return 2.0 ** min(-int(np.frexp(largest)[1]), MOST_POWER)


def _solve_enlarged(problem, alpha, rcond, factor):
    """The solution for one alpha, from rows times a factor unless their squares do not matter."""
    root = np.sqrt(alpha)
    if root > MOST_ROOT / factor:
        return _solve_rows(problem, np.asarray([alpha]), rcond, by_qr=False)
    enlarged = replace(problem, A=problem.A * factor)
    # An SVD does not mind how small the solution is next to b.
    penalty = (root * factor) ** 2
    coef, unique = _solve_rows(enlarged, np.asarray([penalty]), rcond, by_qr=penalty <= 1.0)
    return coef * factor, unique


def _solve_rows(problem, alphas, rcond, by_qr=True):
    xp = namespace(problem.A)
    p = problem.A.shape[1]
    rows = xp.concat([problem.A, problem.b], axis=1)
    if rows.shape[0] > rows.shape[1]:
        rows = triangular_factor(rows, xp)
    solutions: list = []
    svd = None
    # With fewer rows than features each QR would cost p^3; one SVD serves every alpha.
    try_qr = by_qr and rows.shape[0] >= p and rcond is None
    for alpha in alphas:
        solution = _solve_augmented(rows, p, float(alpha), xp) if try_qr else None
        if solution is None:
            svd = svd or _svd(rows[:, :p], xp)
            solution = _solve_svd(svd, rows[:, p:], float(alpha), rcond, xp)
        solutions.append(solution)
    unique = np.asarray([unique for _, unique in solutions], dtype=bool)
    return xp.stack([coef.T for coef, _ in solutions]), unique


def _solve_augmented(rows, p, alpha, xp):
    """Coefficients (p, t) from a QR of [A b; sqrt(alpha) I 0]; None if it is nearly singular."""
    if alpha > 0:
        penalty = xp.concat(
            [
                float(np.sqrt(alpha)) * xp.eye(p, dtype=xp.float64, device=rows.device),
                zeros((p, rows.shape[1] - p), like=rows, xp=xp),
            ],
            axis=1,
        )
        rows = triangular_factor(xp.concat([rows, penalty], axis=0), xp)
    R, side = rows[:p, :p], rows[:p, p:]
    norms = xp.sqrt(xp.sum(R**2, axis=0))
    smallest = float(xp.min(norms)) if p else 1.0
    if not smallest > 0:
        return None
    R = R / norms
    if float(xp.min(xp.abs(xp.linalg.diagonal(R)))) <= p * EPS:
        return None
    singular = xp.linalg.svdvals(R)
    if not float(singular[-1]) > max(rows.shape) * EPS * float(singular[0]):
        return None
    return xp.linalg.solve(R, side) / norms[:, None], True


def _svd(A, xp):
    """Singular vectors and values U (m, r), s (r,), V' (r, p) of A (m, p)."""
    if A.shape[0] >= A.shape[1]:
        return xp.linalg.svd(A, full_matrices=False)
    Q, R = xp.linalg.qr(A.T)
    U, s, Vt = xp.linalg.svd(R.T)
    return U, s, Vt @ Q.T


def _solve_svd(svd, b, alpha, rcond, xp):
    U, s, Vt = svd
    if rcond is None:
        rcond = max(U.shape[0], Vt.shape[1]) * EPS
    kept = s > rcond * float(s[0])
    safe = xp.where(kept, s, xp.ones_like(s))
    gain = xp.where(kept, safe / (safe**2 + alpha), xp.zeros_like(s))
    full_rank = all_true(kept, xp) and U.shape[0] >= Vt.shape[1]
    return Vt.T @ (gain[:, None] * (U.T @ b)), full_rank or alpha > 0
