"""Initial centres of k-means, by scikit-learn's rules and from the random numbers it would draw."""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from math import log
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state

from gpuml._arrays import Array, as_array, is_array, is_numpy, move, namespace, place_of
from gpuml.solvers.clusters import Points
from gpuml.solvers.divided_clusters import DividedPoints
from gpuml.solvers.seeds import Draw, seed_numbers


@dataclass(frozen=True)
class Seeding:
    """The k-means++ seeds of one run.

    Attributes
    ----------
    key : object
        Runs with equal keys draw the same random numbers; one may draw more of them.
    state : tuple
        State of the random number generator before the run.
    """

    key: Hashable
    draw: Draw
    state: Any

    @property
    def n_seeds(self) -> int:
        return len(self.draw.shares) + 1


def starts_of(
    points: Points | DividedPoints,
    mean: Array,
    candidates: Sequence[Mapping[str, Any]],
    n_runs: Sequence[int],
) -> list[list[Array]]:
    """Initial centres (k, p) of each run of each candidate, minus the mean of the rows.

    Candidates with the same integer seed that draw equally many rows per centre share the first
    centres of their first runs.

    Parameters
    ----------
    points : Points
        Rows minus their mean.
    mean : array (p,)
        The mean of the rows.
    candidates : list of dict
        With `n_clusters`, `init` and `random_state`.
    n_runs : list of int
        Number of runs of each candidate.
    """
    shares, cumulated = shares_of(points)
    found: list[list[Any]] = []
    for params, count in zip(candidates, n_runs, strict=True):
        init, k = params["init"], params["n_clusters"]
        seed = params["random_state"]
        # Each fit of a search fits a clone, which has a copy of the random state.
        random = check_random_state(deepcopy(seed))
        if not isinstance(init, str):
            found.append([given_centres(init, mean) - mean])
        elif init == "random":
            found.append([points.rows(_random_rows(random, k, shares)) for _ in range(count)])
        else:
            found.append([seeding(random, k, r, seed, cumulated) for r in range(count)])
    seedings = [each for runs in found for each in runs if isinstance(each, Seeding)]
    numbers = iter(seeds_of(points, seedings))
    return [
        [points.rows(next(numbers)) if isinstance(each, Seeding) else each for each in runs]
        for runs in found
    ]


def given_centres(init: Any, X: Array) -> Array:
    """An array-like of centres, on the device and of the dtype of the rows."""
    init = as_array(init)
    init = init if is_array(init) else np.asarray(init, dtype=np.float64)
    return namespace(X).astype(move(init, place_of(X)), X.dtype)


def shares_of(points: Points | DividedPoints) -> tuple[np.ndarray, np.ndarray]:
    """Share of each row in the total weight, and the cumulated shares, in CPU memory.

    They are computed as in scikit-learn and NumPy, because the drawn rows depend on the last bit.
    """
    if isinstance(points, Points) and points.weight is None:
        return _equal_shares(points.n_rows, points.dtype)
    return _with_cumulated(points.weights)


@lru_cache(maxsize=2)  # the splits of a search have equally many rows
def _equal_shares(n_rows, dtype):
    return _with_cumulated(np.ones(n_rows, dtype=dtype))


def _with_cumulated(weight):
    shares = weight / weight.sum()
    cumulated = np.cumsum(shares, dtype=np.float64)
    return shares, cumulated / cumulated[-1]


def _random_rows(random, k, shares):
    return random.choice(len(shares), size=k, replace=False, p=shares).astype(np.int64)


def seeding(random: Any, k: int, run: int, seed: Any, cumulated: np.ndarray) -> Seeding:
    """The k-means++ seeds of the next run of a model with random state `seed`."""
    n_trials = 2 + int(log(k))
    state = random.get_state()
    # The row that ``random.choice(n, p=shares)`` draws.
    first = int(np.searchsorted(cumulated, random.random_sample(), side="right"))
    draw = Draw(first, random.uniform(size=(k - 1, n_trials)))
    if not isinstance(seed, Integral):
        key: Hashable = object()
    else:
        # Where later runs begin to draw depends on how many numbers earlier runs drew.
        key = (seed, n_trials) if run == 0 else (seed, n_trials, k, run)
    return Seeding(key, draw, state)


def seeds_of(points: Points | DividedPoints, seedings: Sequence[Seeding]) -> list[Array]:
    """Row numbers (k,) of the seeds of each run."""
    longest: dict[Hashable, Seeding] = {}
    for each in seedings:
        if each.key not in longest or longest[each.key].n_seeds < each.n_seeds:
            longest[each.key] = each
    if not longest:
        return []
    found = dict(zip(longest, _numbers(points, list(longest.values())), strict=True))
    return [found[each.key][: each.n_seeds] for each in seedings]


def _numbers(points, seedings):
    if isinstance(points, DividedPoints):
        return points.seed_numbers([each.draw for each in seedings])
    if not is_numpy(points.X) or points.X.dtype == np.float64:
        return seed_numbers(points, [each.draw for each in seedings])
    # Cumulated float32 distances round differently in another order: other rows would be drawn.
    lengths = np.einsum("ij,ij->i", points.X, points.X)
    return [_of_scikit_learn(points, lengths, each) for each in seedings]


def _of_scikit_learn(points, lengths, one):
    random = np.random.RandomState()
    random.set_state(one.state)
    options = {"sample_weight": points.weight, "x_squared_norms": lengths, "random_state": random}
    return kmeans_plusplus(points.X, one.n_seeds, **options)[1]
