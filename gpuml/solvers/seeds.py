"""Seeds of k-means by the rule of k-means++: rows that are far from each other, drawn at random.

Each seed after the first is the best of a few rows that are drawn with probabilities in proportion
to weighted squared distances from the seeds so far. Numbers that decide are drawn beforehand, so
that many runs find their seeds in the same steps, wherever the rows are.

D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA (2007).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from gpuml._arrays import Array, device_of, is_cupy, is_numpy, move, namespace, place_of
from gpuml.solvers import _seed_kernels
from gpuml.solvers.clusters import Points

# Workspace for distances of rows from the rows that were drawn, of all runs.
DISTANCE_BYTES, HOST_DISTANCE_BYTES = 2**28, 2**20


@dataclass(frozen=True)
class Draw:
    """What decides about the k seeds of a run.

    Attributes
    ----------
    first : int
        The row that is the first of them.
    shares : ndarray (k - 1, t)
        Where among cumulated distances, from 0 to 1, the t rows are that may come next.
    """

    first: int
    shares: np.ndarray


def plus_plus(points: Points, draws: Sequence[Draw]) -> list[Array]:
    """Seeds (k, p) of each run."""
    xp = namespace(points.X)
    return [xp.take(points.X, each, axis=0) for each in seed_numbers(points, draws)]


def seed_numbers(points: Points, draws: Sequence[Draw]) -> list[Array]:
    """Numbers (k,) of the rows that are the seeds of each run."""
    X, xp = points.X, namespace(points.X)
    lengths = xp.astype(xp.sum(X * X, axis=1), xp.float64)
    size = HOST_DISTANCE_BYTES
    if not place_of(X).is_host:
        # Few steps of all runs cost less there than fewer trials: the last one is made again.
        size, draws = DISTANCE_BYTES, _of_equal_trials(draws)
    order = sorted(range(len(draws)), key=lambda r: draws[r].shares.shape[::-1], reverse=True)
    found: dict[int, Array] = {}
    for n_trials, group in groupby(order, key=lambda r: draws[r].shares.shape[1]):
        runs = list(group)
        step = max(1, size // (8 * n_trials * points.n_rows))
        for at in range(0, len(runs), step):
            some = runs[at : at + step]
            numbers = _numbers(points, lengths, [draws[r] for r in some])
            found |= dict(zip(some, numbers, strict=True))
    return [found[r] for r in range(len(draws))]


def _of_equal_trials(draws):
    most = max(draw.shares.shape[1] for draw in draws)
    missing = [((0, 0), (0, most - draw.shares.shape[1])) for draw in draws]
    return [
        Draw(draw.first, np.pad(draw.shares, pad, mode="edge"))
        for draw, pad in zip(draws, missing, strict=True)
    ]


def _numbers(points: Points, lengths: Array, draws: Sequence[Draw]) -> list[Array]:
    """Numbers of the rows that are seeds; draws come with the longest first."""
    X, xp, place = points.X, namespace(points.X), place_of(points.X)
    weight = None if points.weight is None else xp.astype(points.weight, xp.float64)
    n_steps, n_trials = draws[0].shares.shape
    shares = np.zeros((n_steps, len(draws), n_trials))
    for r, draw in enumerate(draws):
        shares[: len(draw.shares), r, :] = draw.shares
    shares = move(shares, place)
    last = move(np.asarray([draw.first for draw in draws], dtype=np.int64), place)
    found = xp.zeros((n_steps + 1, len(draws)), dtype=xp.int64, device=place.device)
    found[0, :] = last
    nearest, total = _nearer(X, last[:, None], lengths, None, weight)
    nearest, total = nearest[:, 0, :], total[:, 0]
    of_runs = xp.arange(len(draws), device=place.device) * n_trials
    for step in range(n_steps):
        n_left = sum(len(draw.shares) > step for draw in draws)
        goals = shares[step, :n_left, :] * total[:n_left, None]
        nearest = nearest[:n_left, :]
        next_ones = drawn(nearest, weight, goals)
        squares, totals = _nearer(X, next_ones, lengths, nearest, weight)
        # One of few: a product with zeros and ones would spread what is not finite.
        flat = xp.argmin(totals, axis=1) + of_runs[:n_left]
        nearest = xp.take(xp.reshape(squares, (-1, points.n_rows)), flat, axis=0)
        total = xp.take(xp.reshape(totals, (-1,)), flat)
        found[step + 1, :n_left] = xp.take(xp.reshape(next_ones, (-1,)), flat)
    return [found[: len(draw.shares) + 1, r] for r, draw in enumerate(draws)]


def _nearer(
    X: Array, numbers: Array, lengths: Array, nearest: Array | None, weight: Array | None
) -> tuple[Array, Array]:
    """Squared distances (R, t, n) and their sums (R, t), of t drawn rows of each run.

    Distances are those from the nearest seed so far (R, n), if that is nearer.
    """
    if is_cupy(X):
        return _seed_kernels.nearer(X, numbers, lengths, nearest, weight)
    xp, flat = namespace(X), namespace(X).reshape(numbers, (-1,))
    squares = squares_from(xp.take(X, flat, axis=0), xp.take(lengths, flat), X, lengths)
    squares = xp.reshape(squares, (*numbers.shape, -1))
    if nearest is not None:
        squares = xp.minimum(squares, nearest[:, None, :])
    return squares, weighted(squares, weight)


def squares_from(rows: Array, of_rows: Array, X: Array, lengths: Array) -> Array:
    """Squared distances (m, n) of rows (m, p) from rows X (n, p), of known squared lengths."""
    xp = namespace(X)
    products = xp.astype(rows @ X.T, xp.float64, copy=False)
    products *= -2.0
    products += of_rows[:, None]
    products += lengths
    # `clip` looks at its bounds, several small steps on a GPU.
    return xp.maximum(products, xp.zeros((), dtype=xp.float64, device=device_of(X)))


def weighted(squares: Array, weight: Array | None) -> Array:
    """Sums (...) of squared distances (..., n) by weight."""
    return namespace(squares).sum(squares, axis=-1) if weight is None else squares @ weight


def drawn(nearest: Array, weight: Array | None, goals: Array) -> Array:
    """Rows (R, t) where cumulated distances (R, n) come to the goals (R, t)."""
    xp = namespace(nearest)
    shares = nearest if weight is None else nearest * weight
    cumulated = xp.cumulative_sum(shares, axis=1)
    if is_cupy(nearest):
        return _seed_kernels.drawn(cumulated, goals)
    most = nearest.shape[1] - 1
    if is_numpy(nearest):
        pairs = zip(cumulated, goals, strict=True)
        return np.minimum(np.stack([np.searchsorted(row, goal) for row, goal in pairs]), most)
    # The array standard searches one sorted array at a time.
    below = cumulated[:, None, :] < goals[:, :, None]
    last = xp.full((), most, dtype=xp.int64, device=device_of(nearest))
    return xp.minimum(xp.sum(xp.astype(below, xp.int64), axis=2), last)
