"""k-means of rows that others hold, from sums over their shards.

Seeds and steps are those of `gpuml.solvers.seeds` and `gpuml.solvers.clusters`. Cumulated distances
of the shards tell which one has the next seed, and that one finds it. A step of Lloyd's algorithm
sums, over the shards, the rows that are nearest to each centre; no labels are kept, since centres
stay where they are when no label changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.ops import all_true
from gpuml.data import Holders
from gpuml.solvers._far_rows import distances_of, moved_to_far_rows
from gpuml.solvers.clusters import (
    Clusters,
    Points,
    Run,
    costs_and_sizes,
    labels_of,
    pairs_of_labels,
    sorted_sizes,
    sums_by_centre,
)
from gpuml.solvers.seeds import Draw, drawn, squares_from, weighted


@dataclass(frozen=True)
class DividedPoints:
    """Rows near the origin in shards, for the same questions as `Points`.

    Attributes
    ----------
    holders : Holders
        Of `Points`, some of which may have no rows.
    """

    holders: Holders

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights (n,) of all rows, in CPU memory."""
        return np.concatenate([to_host(each) for each in self.holders.each(_weights)])

    @cached_property
    def _sizes(self) -> np.ndarray:
        """Rows of each shard."""
        return np.asarray(self.holders.each(_size), dtype=np.int64)

    @property
    def _starts(self) -> np.ndarray:
        """Numbers of the first rows of the shards."""
        return np.cumsum(self._sizes) - self._sizes

    def rows(self, numbers: Array) -> Array:
        """Some rows (m, p), by their numbers."""
        numbers = to_host(numbers)
        owners = np.searchsorted(self._starts, numbers, side="right") - 1
        own = [numbers[owners == i] - first for i, first in enumerate(self._starts)]
        found = self.holders.map(_taken, each_with=own).each(_itself)
        order = np.argsort(np.argsort(owners, kind="stable"))
        xp = namespace(*found)
        return xp.take(xp.concat(found), move(order, place_of(found[0])), axis=0)

    def seed_numbers(self, draws: Sequence[Draw]) -> list[Array]:
        """Numbers (k,) of the rows that are the seeds of each run."""
        return [self._seeds_of(draw) for draw in draws]

    def _seeds_of(self, draw):
        found = [draw.first]
        shards = self.holders.map(_near_seed, self.rows(np.asarray(found)))
        costs = np.asarray(shards.each(_cost))
        for shares in draw.shares:
            numbers = self._drawn(shards, np.cumsum(costs), shares * np.sum(costs))
            rows = self.rows(numbers)
            each = np.stack([to_host(one) for one in shards.each(_costs_with, rows)], axis=1)
            best = int(np.argmin(np.sum(each, axis=1)))
            found.append(int(numbers[best]))
            shards, costs = shards.map(_nearer, rows[best : best + 1, :]), each[best]
        return np.asarray(found)

    def _drawn(self, shards, cumulated, goals):
        """Numbers (t,) of the rows where cumulated distances come to the goals (t,)."""
        some = np.flatnonzero(self._sizes)
        owners = np.clip(np.searchsorted(cumulated, goals), some[0], some[-1])
        rest = goals - np.append(0.0, cumulated)[owners]
        asked = shards.map(_asked, each_with=[rest[owners == i] for i in range(len(cumulated))])
        numbers = np.empty(len(goals), dtype=np.int64)
        for i, found in enumerate(asked.each(_itself)):
            numbers[owners == i] = self._starts[i] + to_host(found)
        return numbers

    def lloyd(self, runs: Sequence[Run]) -> list[Clusters]:
        """What each run comes to; those that are under way read the rows together."""
        centres, n_iter = [run.start for run in runs], [0] * len(runs)
        left = list(range(len(runs)))
        while left:
            on = []
            for r, moved in zip(left, self._step([centres[r] for r in left]), strict=True):
                xp = namespace(moved)
                shift = float(xp.sum((moved - centres[r]) ** 2, dtype=xp.float64))
                centres[r], n_iter[r] = moved, n_iter[r] + 1
                if shift > runs[r].tol and n_iter[r] < runs[r].max_iter:
                    on.append(r)
            left = on
        found = zip(centres, n_iter, self.costs(centres), strict=True)
        return [Clusters(end, n, *cost) for end, n, cost in found]

    def _step(self, centres):
        """Means (k, p) of the rows of each centre, for each set of centres."""
        sums, weights = self.holders.total(_sums, centres, combine=_added)
        moved, xp = [], namespace(sums)
        for r, old in enumerate(centres):
            k = old.shape[0]
            own, weight = sums[r, :k, :], weights[r, :k]
            if all_true(weight > 0, xp):
                new = own / weight[:, None]
            else:
                new = move(self._with_all_centres(old, *map(to_host, (own, weight))), place_of(own))
            moved.append(xp.astype(new, old.dtype))
        return moved

    def _with_all_centres(self, centres, sums, weights):
        """The same where some centres have no rows: those get rows that are far away."""
        n_empty = int((weights <= 0).sum())
        shards = self.holders.each(_far_rows, centres, n_empty)
        columns = [np.concatenate(list(map(to_host, each))) for each in zip(*shards, strict=True)]
        far = np.argsort(columns[-1], kind="stable")[::-1][:n_empty]
        return moved_to_far_rows(sums, weights, *(each[far] for each in columns))

    def costs(self, centres: Sequence[Array]) -> list[tuple[float, np.ndarray]]:
        """Cost of each set of centres (k, p), and how many rows each has, the fewest first."""
        return sorted_sizes(self.holders.total(_costs, list(centres)), centres)

    def labels(self, centres: Array) -> Array:
        """The nearest centre of each row (n,), int32."""
        return namespace(centres).concat(self.holders.each(_labels, centres))

    def n_pairs(self, one: Array, other: Array) -> int:
        """How many pairs of labels rows have, by two sets of centres."""
        found = self.holders.each(_pairs, one, other)
        return len(np.unique(np.concatenate(list(map(to_host, found)))))


# ---------------------------------------------------------------- of each shard


@dataclass(frozen=True)
class Near:
    """Points, and squared distances (n,) to the nearest seed so far."""

    points: Points
    nearest: Array


def _itself(found):
    return found


def _size(points):
    return points.n_rows


def _weights(points):
    return points.weights


def _taken(points, numbers):
    return points.rows(numbers)


def _near_seed(points, seed):
    return Near(points, _squares(points, seed)[0, :])


def _nearer(near, seed):
    xp = namespace(near.nearest)
    return replace(near, nearest=xp.minimum(near.nearest, _squares(near.points, seed)[0, :]))


def _squares(points, rows):
    X, xp, (rows,) = points.X, namespace(points.X), _here(points, [rows])
    lengths, of_rows = (xp.astype(xp.sum(a * a, axis=1), xp.float64) for a in (X, rows))
    return squares_from(rows, of_rows, X, lengths)


def _cost(near):
    return float(weighted(near.nearest, _float64_weight(near.points)))


def _costs_with(near, rows):
    """Costs (t,) with each of some rows as one seed more."""
    xp = namespace(near.nearest)
    squares = xp.minimum(_squares(near.points, rows), near.nearest[None, :])
    return weighted(squares, _float64_weight(near.points))


def _asked(near, goals):
    """Rows where cumulated distances come to goals."""
    if len(goals) == 0:
        return np.zeros(0, dtype=np.int64)
    goals = move(np.asarray(goals), place_of(near.nearest))[None, :]
    return drawn(near.nearest[None, :], _float64_weight(near.points), goals)[0, :]


def _float64_weight(points):
    xp = namespace(points.X)
    return None if points.weight is None else xp.astype(points.weight, xp.float64)


def _here(points, arrays):
    """What the caller sent, where the rows are."""
    return [move(each, place_of(points.X)) for each in arrays]


def _sums(points, centres):
    return sums_by_centre(points, _here(points, centres))


def _costs(points, centres):
    return costs_and_sizes(points, _here(points, centres))


def _pairs(points, one, other):
    return pairs_of_labels(points, *_here(points, [one, other]))


def _added(one, other):
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _far_rows(points, centres, n_rows):
    """The rows farthest from their centres, with labels, weights and distances, farthest first."""
    X, xp, (centres,) = points.X, namespace(points.X), _here(points, [centres])
    labels = labels_of(X, centres)
    distances = distances_of(X, xp.take(centres, labels, axis=0))
    far = xp.flip(xp.argsort(distances))[:n_rows]
    weight = xp.ones_like(distances) if points.weight is None else points.weight
    return tuple(xp.take(each, far, axis=0) for each in (X, labels, weight, distances))


def _labels(points, centres):
    return labels_of(points.X, *_here(points, [centres]))
