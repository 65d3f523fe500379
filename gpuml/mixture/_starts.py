"""Initial responsibilities of mixtures, drawn from the random numbers scikit-learn would draw."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Array, device_of, move, namespace, place_of
from gpuml._arrays.ops import column_moments
from gpuml.cluster._kmeans import warn_of_few
from gpuml.cluster._starts import Seeding, seeding, seeds_of, shares_of
from gpuml.solvers._mixture_space import Matrix, here, mean_of
from gpuml.solvers.clusters import Points, Run
from gpuml.solvers.divided_clusters import DividedPoints

# scikit-learn's defaults for k-means.
MAX_ITER, TOL = 300, 1e-4
BY_SEEDS = ("kmeans", "k-means++")


@dataclass(frozen=True)
class Labels:
    """Each row belongs to one component."""

    labels: Array
    size: int
    complete = True

    def shares(self, rows: slice) -> Array:
        """Responsibilities (k, m) of the components for some rows."""
        xp = namespace(self.labels)
        numbers = xp.arange(self.size, dtype=self.labels.dtype, device=device_of(self.labels))
        return xp.astype(self.labels[rows] == numbers[:, None], xp.float64)

    def at(self, like: Array) -> "Labels":
        """The same, on the device of `like`."""
        return Labels(here(self.labels, like), self.size)

    def part(self, first: int, stop: int) -> "Labels":
        """The same for some of the rows."""
        return Labels(self.labels[first:stop], self.size)


@dataclass(frozen=True)
class Chosen:
    """Each component consists of one row; `numbers` (k,) are the numbers of these rows."""

    numbers: Array
    complete = False

    @property
    def size(self) -> int:
        return self.numbers.shape[0]

    def shares(self, rows: slice) -> Array:
        """Responsibilities (k, m) of the components for some rows."""
        xp, numbers = namespace(self.numbers), self.numbers
        some = xp.arange(rows.start, rows.stop, dtype=numbers.dtype, device=device_of(numbers))
        return xp.astype(some == numbers[:, None], xp.float64)

    def at(self, like: Array) -> "Chosen":
        """The same, on the device of `like`."""
        return Chosen(here(self.numbers, like))

    def part(self, first: int, stop: int) -> "Chosen":
        """The same for some of the rows, counted from the first of them."""
        return Chosen(self.numbers - first)


@dataclass(frozen=True)
class Shares:
    """Each component has a responsibility for each row, `values` (k, n)."""

    values: Array
    complete = True

    @property
    def size(self) -> int:
        return self.values.shape[0]

    def shares(self, rows: slice) -> Array:
        """Responsibilities (k, m) of the components for some rows."""
        return self.values[:, rows]

    def at(self, like: Array) -> "Shares":
        """The same, on the device of `like`."""
        return Shares(here(self.values, like))

    def part(self, first: int, stop: int) -> "Shares":
        """The same for some of the rows."""
        return Shares(self.values[:, first:stop])


Start = Labels | Chosen | Shares


def starts_of(
    rows: Matrix, candidates: Sequence[Mapping[str, Any]], randoms: Sequence[Any]
) -> list[list[Start]]:
    """The starts of the `n_init` runs of each candidate.

    Candidates with the same integer seed, `init_params` and `n_components` share their starts.

    Parameters
    ----------
    rows : Matrix
        The training rows.
    candidates : list of dict
        Parameters of each candidate.
    randoms : list of RandomState
        Random numbers of each candidate, which draw its starts one after the other.
    """
    drawn: dict[Hashable, list[Any]] = {}
    keys = []
    points = _points(rows)
    shares, cumulated = shares_of(points)
    for c, (params, random) in enumerate(zip(candidates, randoms, strict=True)):
        seed, k = params["random_state"], params["n_components"]
        key: Hashable = ("alone", c)
        if isinstance(seed, Integral):
            key = params["init_params"], k, int(seed)
        keys.append(key)
        found = drawn.setdefault(key, [])
        if len(found) < params["n_init"]:
            # Candidates with one seed have the same random numbers; one may draw more of them.
            found[:] = [
                _drawn(params, random, rows, run, cumulated, shares.dtype)
                for run in range(params["n_init"])
            ]
    seeds = [one for runs in drawn.values() for one in runs if isinstance(one, tuple)]
    made = iter(_of_seeds(points, seeds))
    for runs in drawn.values():
        runs[:] = [next(made) if isinstance(one, tuple) else one for one in runs]
    return [drawn[key][: params["n_init"]] for key, params in zip(keys, candidates, strict=True)]


def _points(rows):
    if rows.is_divided:
        mean = namespace(rows.like).astype(mean_of(rows), rows.like.dtype)
        return DividedPoints(rows.spread.map(_less, mean).holders)
    X = rows.spread.here
    xp = namespace(X)
    return _less(X, xp.astype(column_moments(X, xp)[0], X.dtype, copy=False))


def _less(X, mean):
    return Points(namespace(X).asarray(X - here(mean, X), copy=False), None)


def _squares(points):
    xp = namespace(points.X)
    return xp.sum(points.X * points.X, axis=0, dtype=xp.float64)


def _variance(points):
    """The mean of the variances of the features."""
    if isinstance(points, DividedPoints):
        squares = points.holders.total(_squares) / len(points.weights)
        return float(namespace(squares).mean(squares))
    xp = namespace(points.X)
    return float(xp.mean(column_moments(points.X, xp)[1]))


def _drawn(params, random, rows, run, cumulated, dtype):
    """A start; for "kmeans" and "k-means++", the name and the `Seeding` that it begins with."""
    init, k, n = params["init_params"], params["n_components"], rows.n_rows
    place = HOST if rows.is_divided else place_of(rows.like)
    if init in BY_SEEDS:
        seed = params["random_state"]
        return init, seeding(random, k, run, seed, cumulated)
    if init == "random":
        values = random.uniform(size=(n, k)).astype(dtype)
        values /= values.sum(axis=1)[:, None]
        return Shares(move(np.asarray(values.T, dtype=np.float64, order="C"), place))
    numbers = random.choice(n, size=k, replace=False).astype(np.int64)
    return Chosen(move(numbers, place))


def _of_seeds(points: Points | DividedPoints, wanted: Sequence[tuple[str, Seeding]]) -> list[Start]:
    if not wanted:
        return []
    numbers = seeds_of(points, [each for _, each in wanted])
    by_means = [i for i, (init, _) in enumerate(wanted) if init == "kmeans"]
    tol = TOL * _variance(points)
    runs = [Run(points.rows(numbers[i]), MAX_ITER, tol) for i in by_means]
    found: list[Start] = [Chosen(_as_numbers(each, points)) for each in numbers]
    for i, end in zip(by_means, points.lloyd(runs) if runs else [], strict=True):
        k = end.centres.shape[0]
        warn_of_few(end.n_found, k)
        found[i] = Labels(points.labels(end.centres), k)
    return found


def _as_numbers(numbers, points):
    """Row numbers, on the device of the rows; scikit-learn's are in CPU memory."""
    numbers = move(numbers, HOST if isinstance(points, DividedPoints) else place_of(points.X))
    return namespace(numbers).astype(numbers, namespace(numbers).int64, copy=False)
