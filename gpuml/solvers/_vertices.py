"""Vertices of linear programs, from the weights of an interior point near them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from gpuml._arrays import Array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS

# How far shares of the vertex may be above the least of as many as there are coefficients.
MOST_RATIO = 1e8


def largest_rows(
    programs: Any, share: Array
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Of each program the rows of A and y of the largest weights, these, and which are no rows."""
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
    beside = index >= m
    rows = xp.where(beside, 0, index)
    offset = xp.arange(n_programs, dtype=xp.int64, device=place.device)[:, None]
    if programs.X.ndim == 2:
        A = xp.take(programs.X, xp.reshape(rows, (-1,)), axis=0)
    else:
        X = xp.reshape(programs.X, (-1, q))
        A = xp.take(X, xp.reshape(rows + m * offset, (-1,)), axis=0)
    flat = xp.reshape(index + share.shape[1] * offset, (-1,))
    y, largest = (xp.take(xp.reshape(a, (-1,)), flat, axis=0) for a in (programs.y, share))
    floats = xp.astype(xp.reshape(index, (-1,)), xp.float64)
    columns = [a[:, None] for a in (y, largest, floats)]
    both = np.array(to_host(xp.concat([A, *columns], axis=1))).reshape(n_programs, count, q + 3)
    of_penalties = to_host(programs.penalised)
    for each in both:
        each = each[np.argsort(-each[:, q + 1])]
        number = each[:, q + 2].astype(int) - m
        beside = number >= 0
        each[beside, :q] = of_penalties[number[beside]]
        yield each[:, :q], each[:, q], each[:, q + 1], beside


def vertex(
    A: np.ndarray, y: np.ndarray, share: np.ndarray, beside: np.ndarray
) -> np.ndarray | None:
    """The plane through as many rows as there are coefficients: those of largest weights."""
    q = A.shape[1]
    if len(share) < q:
        return None
    # The largest may be so large that no others would count.
    root = np.sqrt(np.minimum(share / share[q - 1], MOST_RATIO))
    R, order = linalg.qr((root[:, None] * A).T, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(R))
    if len(diagonal) < q or not diagonal[-1] > EPS * diagonal[0]:
        return None
    basis = order[:q]
    try:
        found = np.linalg.solve(A[basis], y[basis])
    except np.linalg.LinAlgError:
        return None
    zero = A[basis[beside[basis]]].any(axis=0)
    found[zero] = 0.0  # implied by the equations, up to rounding
    return found if np.isfinite(found).all() else None
