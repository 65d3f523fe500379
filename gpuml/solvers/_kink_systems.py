"""Systems of the steps towards models of losses with kinks, each for several sides.

Steps need ``(X' W X + C) x = s`` with diagonal W of the rows and C of the coefficients. With
several times as many coefficients as rows, those of which C is large are eliminated by a system of
the order of the rows [1]_, ``S = 1/W + X 1/C X'``, where C is as good as infinite for the others:
as many as there are rows. For these, with columns U, ``U' S^-1 U + C`` is left. If all were
eliminated, those with the smallest C, which become the model, would lose their digits.

References
----------
.. [1] W. W. Hager, "Updating the inverse of a matrix", SIAM Review 31 (1989).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import matmul
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS, SpdFactors, solve_spd
from gpuml.solvers.weighted_sums import weighted_grams

# Coefficients for each row, from which most are eliminated.
MANY = 2
NO_FACTOR = "A matrix of second moments has no factor: it is not finite."


@dataclass(frozen=True)
class Weighted:
    """Matrices ``X' diag(rows) X + diag(own)``.

    Attributes
    ----------
    X : array (m, q) or (K, m, q)
    rows : array (K, m)
        Above 0.
    own : array (K, q)
        Above 0 but for `n_free` of the coefficients.
    n_free : int
    """

    X: Array
    rows: Array
    own: Array
    n_free: int

    def matrices(self) -> Array:
        """(K, q, q)"""
        found = weighted_grams(self.X, self.rows)
        flat = namespace(found).reshape(found, self.own.shape[:1] + (-1,))
        flat[:, :: self.X.shape[-1] + 1] += self.own
        return namespace(found).reshape(flat, found.shape)

    def times(self, x: Array) -> Array:
        """Products (K, q, t) with x (K, q, t)."""
        turned = namespace(x).matrix_transpose(self.X)
        return turned @ (self.rows[:, :, None] * (self.X @ x)) + self.own[:, :, None] * x


def solver(squares: Weighted, *, by_factors: bool = False) -> Callable[[Array], Array]:
    """What makes solutions (K, q) of sides (K, q).

    `by_factors` in CPU memory, where rounding of the inverses that devices have would do harm.
    """
    m, q = squares.X.shape[-2:]
    if MANY * m <= q and squares.n_free <= m:
        solved = _eliminated(squares, by_factors)
    else:
        solved = _solver(squares.matrices(), by_factors)
    return lambda side: solved(side[:, :, None])[:, :, 0]


def _eliminated(squares, by_factors):
    xp: Any = namespace(squares.rows)
    X, own, n_left = squares.X, squares.own, squares.X.shape[-2]
    order = xp.argsort(own, axis=1)
    left, rank = order[:, :n_left], xp.argsort(order, axis=1)
    stays = rank < n_left
    inverse = xp.where(stays, 0.0, 1.0 / xp.where(stays, 1.0, own))[:, :, None]
    X = xp.broadcast_to(X, (own.shape[0], *X.shape[-2:]))
    turned = xp.matrix_transpose(X)
    U = xp.take_along_axis(X, left[:, None, :], axis=2)
    back = xp.matrix_transpose(U)
    of_rows = _solver(
        weighted_grams(xp.matrix_transpose(squares.X), inverse[:, :, 0])
        + _diagonal(1.0 / squares.rows),
        by_factors,
    )
    through = of_rows(U)
    corner = back @ through + _diagonal(xp.take_along_axis(own, left, axis=1))
    of_left = _solver((corner + xp.matrix_transpose(corner)) / 2, by_factors)
    rank = xp.where(stays, rank, 0)[:, :, None]

    def once(side):
        v = of_rows(X @ (inverse * side))
        b = of_left(xp.take_along_axis(side, left[:, :, None], axis=1) - back @ v)
        others = inverse * (side - turned @ (v + through @ b))
        return xp.where(stays[:, :, None], xp.take_along_axis(b, rank, axis=1), others)

    return partial(_refined, once, squares.times)


def _solver(matrices, by_factors):
    """Of sides (K, q, t); with one step of refinement, but for those by factors."""
    here = by_factors or is_numpy(matrices)
    for some in _firmer(np.asarray(to_host(matrices)) if here else matrices):
        once, condition = (_factored if here else _inverted)(some, place_of(matrices))
        # Of what is not finite the condition is no number.
        if bool(namespace(condition).all(condition < 1.0 / EPS)):
            return once if by_factors else partial(_refined, once, partial(matmul, some))
    raise np.linalg.LinAlgError(NO_FACTOR)


def _factored(matrices, place):
    factors = SpdFactors.of(matrices)

    def once(side):
        if is_numpy(side):
            return factors.solve(side)
        return move(factors.solve(np.asarray(to_host(side))), place)

    return once, factors.condition


def _inverted(matrices, place):
    xp = place.xp
    eye = xp.eye(matrices.shape[-1], dtype=xp.float64, device=place.device)
    inverse, condition = solve_spd(matrices, xp.broadcast_to(eye, matrices.shape), xp)
    return partial(matmul, inverse), condition


def _refined(once, times, side):
    found = once(side)
    return found + once(side - times(found))


def _diagonal(values):
    """Matrices (K, q, q) of numbers (K, q)."""
    xp = namespace(values)
    eye = xp.eye(values.shape[-1], dtype=xp.float64, device=place_of(values).device)
    return values[:, :, None] * eye


def _firmer(matrices):
    """Matrices, and with more and more on their diagonals: for those without a factor."""
    yield matrices
    xp: Any = namespace(matrices)
    size = xp.linalg.diagonal(matrices)
    more = EPS * matrices.shape[-1]
    while more <= 1.0:
        yield matrices + _diagonal(more * xp.where(size > 0, size, 1.0))
        more *= 10.0
