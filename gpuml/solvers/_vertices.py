"""Vertices of linear programs, from the weights of an interior point near them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from gpuml._arrays import Array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS

# How far shares of the vertex may be above the least of as many as there are coefficients; and how
# far above the first of the others those are that are surely of the vertex.
MOST_RATIO = 1e8


@dataclass(frozen=True)
class Largest:
    """The largest weights of a program, falling, and what each of them is of.

    Attributes
    ----------
    X : ndarray (c, q)
    row : ndarray (n,) of int
        Of X; none of it for penalised coefficients.
    y, share : ndarrays (n,)
    number : ndarray (n,) of int
        Of the penalised coefficient; -1 for rows.
    """

    X: np.ndarray
    row: np.ndarray
    y: np.ndarray
    share: np.ndarray
    number: np.ndarray

    @property
    def are_zero(self) -> np.ndarray:
        """Which are of coefficients that are 0 without doubt, (n,)."""
        q = self.X.shape[1]
        first = self.share[q] if len(self.share) > q else 0.0
        return (self.number >= 0) & (self.share > MOST_RATIO * first)

    @property
    def zero(self) -> np.ndarray:
        """The numbers of these coefficients."""
        return self.number[self.are_zero]


def largest_rows(programs: Any, share: Array) -> Iterator[Largest]:
    """Of each program the rows of A with the largest weights (K, m + r)."""
    xp, (m, q) = namespace(share), programs.X.shape[-2:]
    place, n_programs = place_of(share), share.shape[0]
    count = min(4 * q, share.shape[1])
    numbers = xp.arange(share.shape[1], dtype=xp.int64, device=place.device)
    ends = move(np.asarray(programs.n_rows, dtype=np.int64), place)[:, None]
    share = xp.where((numbers >= ends) & (numbers < m), 0.0, share)
    if is_numpy(share):
        index = np.argpartition(-share, count - 1, axis=1)[:, :count]
    else:
        index = xp.argsort(-share, axis=1)[:, :count]
    columns = [xp.take_along_axis(a, index, axis=1) for a in (share, programs.y)]
    there = np.asarray(to_host(xp.stack([*columns, xp.astype(index, xp.float64)])))
    there = np.take_along_axis(there, np.argsort(-there[0], axis=1)[None], axis=2)
    of_coef = np.append(programs.penalised, -1)
    where = there[2].astype(int)
    number = of_coef[np.maximum(where - m, -1)]
    where = np.where(where < m, where, 0)
    X = programs.X
    if m > count:
        if X.ndim == 3:
            where = where + m * np.arange(n_programs)[:, None]
        where = move(where.reshape(-1), place)
        X = xp.reshape(xp.take(xp.reshape(X, (-1, q)), where, axis=0), (n_programs, count, q))
        where = np.broadcast_to(np.arange(count), (n_programs, count))
    X = to_host(X)
    for k in range(n_programs):
        own = X if X.ndim == 2 else X[k]
        yield Largest(own, where[k], there[1, k], there[0, k], number[k])


def vertex(rows: Largest) -> np.ndarray | None:
    """The plane through as many rows as there are coefficients: those of largest weights."""
    q, share, number = rows.X.shape[1], rows.share, rows.number
    if len(share) < q:
        return None
    stays = np.ones(q, dtype=bool)
    stays[rows.zero] = False
    # What is left may be a small part of many.
    left, rest = np.flatnonzero(stays), np.flatnonzero(~rows.are_zero)
    found = np.zeros(q)
    if not len(left):
        return found
    number = number[rest]
    A = rows.X[np.ix_(rows.row[rest], left)]
    A[number >= 0] = number[number >= 0, None] == left
    # The largest may be so large that no others would count.
    root = np.sqrt(np.minimum(share[rest] / share[q - 1], MOST_RATIO))
    R, order = linalg.qr((root[:, None] * A).T, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(R))
    if len(diagonal) < len(left) or not diagonal[-1] > EPS * diagonal[0]:
        return None
    basis = order[: len(left)]
    try:
        found[left] = np.linalg.solve(A[basis], rows.y[rest[basis]])
    except np.linalg.LinAlgError:
        return None
    zero = number[basis]
    found[zero[zero >= 0]] = 0.0  # implied by the equations, up to rounding
    return found if np.isfinite(found).all() else None
