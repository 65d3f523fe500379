"""Machines of losses with kinks, of fewer rows than columns: the side of its target of each row.

Where there are coefficients for all rows, most rows can be on their targets. Coefficients are sums
of rows, ``b = A'd``, and the sides of the other rows are all that their weights d depend on: so
guessed sides give all d, by one system in ``A A'``. Rows that contradict their guess change sides,
all at once [1]_. Few systems lead to the right sides or, of rows that depend on each other, none.

References
----------
.. [1] K. Kunisch, F. Rendl, "An infeasible active set method for quadratic problems with simple
   bounds", SIAM Journal on Optimization 14 (2003).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpuml._arrays.ops import EPS

# Systems that are solved at most.
MOST_STEPS = 15


@dataclass(frozen=True)
class Sides:
    """What is found of a model.

    Attributes
    ----------
    weights : array (m,)
        Of the rows.
    sides : array (J, m)
        Whether rows are above a target (1), below it (-1), or on it (0).
    n_steps : int
        The systems solved.
    system : tuple of arrays
        Which rows are on a target (r,), and a factor of their inner products.
    """

    weights: np.ndarray
    sides: np.ndarray
    n_steps: int
    system: tuple[np.ndarray, np.ndarray]

    def correction(self, residuals: np.ndarray) -> np.ndarray:
        """More weights (m,), for residuals (J, m) that rounding left of rows on their targets."""
        rows, factor = self.system
        more = np.zeros_like(self.weights)
        if len(rows):
            left = np.where(self.sides == 0, residuals, 0.0).sum(axis=0)[rows]
            more[rows] = lapack.dpotrs(factor, left)[0]
        return more


def solve_path(K: np.ndarray, models: Sequence[Any]) -> list[Sides | None]:
    """Each of several models (`margins.Kinks`) from the sides of the one before; see `solve`."""
    found: list[Sides | None] = []
    for each in models:
        last = found[-1] if found else None
        near = None if last is None or last.sides.shape != each.y.shape else last.sides
        found.append(solve(K, each.y, each.lower, each.upper, near))
    return found


def solve(
    K: np.ndarray,
    y: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    start: np.ndarray | None = None,
) -> Sides | None:
    """The weights d that are best, or None if guesses did not lead there.

    Parameters
    ----------
    K : array (m, m)
        ``A A'``
    y, lower, upper : arrays (J, m)
        As of `margins.Kinks`.
    start : array (J, m), optional
        A first guess.
    """
    sides = _first(K, y, upper) if start is None else start
    size = len(K) * EPS * np.abs(K)
    for n_steps in range(1, MOST_STEPS + 1):
        found = _weights(K, y, sides, np.where(sides > 0, upper, -lower))
        if found is None:
            return None
        d, *system = found
        own = d.sum(axis=0)
        e, rounding = y - K @ own, (size @ np.abs(own)).max()
        beyond = np.where(d > upper, 1, np.where(d < -lower, -1, 0))
        after = np.where(sides == 0, beyond, np.where(sides * e < -rounding, 0, sides))
        twice = (after == 0).sum(axis=0) > 1
        if twice.any():  # of several targets a row is on the nearest
            nearest = np.abs(e) == np.abs(e).min(axis=0)
            after = np.where(twice & ~nearest, np.sign(e), after)
        if (after == sides).all():
            are_there = (np.abs(e[sides == 0]) <= rounding).all()
            return Sides(own, sides, n_steps, tuple(system)) if are_there else None
        sides = after
    return None


def _first(K, y, upper):
    """All rows on a target: of two, the one that is below if it takes a weight above 0."""
    if len(y) == 1:
        return np.zeros_like(y)
    bounds = np.where(upper == 0, 1, -1)
    middle = _weights(K, y.mean(axis=0)[None, :], np.zeros_like(y[:1]), 0.0)
    if middle is None:
        return np.where(np.abs(y) == np.abs(y).min(axis=0), 0, bounds)
    return np.where((middle[0] > 0) == (upper > 0), 0, bounds)


def _weights(K, y, sides, at_bounds):
    """Weights (J, m) with which rows are on their targets, which rows, and a factor for them."""
    on = sides == 0
    d = np.where(on, 0.0, at_bounds)
    rows = np.flatnonzero(on.any(axis=0))
    if not len(rows):
        return d, rows, K[:0, :0]
    left = (np.where(on, y, 0.0).sum(axis=0) - K @ d.sum(axis=0))[rows]
    system = K.copy() if len(rows) == len(K) else K[np.ix_(rows, rows)]
    factor, found, failed = lapack.dposv(system.T, left, overwrite_a=1)
    if failed:
        return None
    free = np.zeros(len(K))
    free[rows] = found
    return np.where(on, free, d), rows, factor
