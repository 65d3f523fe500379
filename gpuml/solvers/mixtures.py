r"""Expectation and maximisation for many Gaussian mixtures of the same rows.

A mixture of components with weights w and normal densities N makes

.. math:: \sum_i \log \sum_k w_k N_k(x_i)

large: shares of the components in each row follow from their densities, and weights, means and
covariances from the shares, until the mean over the rows grows by less than a tolerance. All
mixtures under way read the rows together; those that are done leave.

A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM
algorithm", Journal of the Royal Statistical Society B 39 (1977).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace, place_of, to_host
from gpuml._arrays.ops import constant
from gpuml._arrays.threads import ordered_map
from gpuml.solvers._mixture_kinds import Kind, scattered
from gpuml.solvers._mixture_space import Components, Shard, Space, Told, added, here

# Workspace of a tile: features of rows, and shares of components.
TILE_BYTES, HOST_TILE_BYTES = 2**28, 2**21
LEAST_TILE = 128
# Least shares of components, in units of the precision of the user's rows.
LEAST_SHARES = 10.0


@dataclass(frozen=True)
class Run:
    """A mixture of k components before its first step, and when it ends.

    Attributes
    ----------
    weights : array (k,)
    means : array (k, p)
    covariances : array
        Of the one mixture, in the coordinates of the space.
    reg : float
        What is added to variances.
    tol : float
    max_iter : int
    bound : float
        The mean log density that the first step is compared with.
    """

    weights: Array
    means: Array
    covariances: Array
    reg: float
    tol: float
    max_iter: int
    bound: float = -float("inf")

    @property
    def size(self) -> int:
        return self.means.shape[0]


@dataclass
class End:
    """Where a run ended.

    Attributes
    ----------
    weights, means, covariances : arrays
        As of a `Run`.
    converged : bool
    bounds : list of float
        The mean log density at each step, before it changed the components.
    """

    weights: Array
    means: Array
    covariances: Array
    converged: bool = False
    bounds: list[float] = field(default_factory=list)


# ---------------------------------------------------------------- readings of the rows


@dataclass(frozen=True)
class _Now:
    """Mixtures as readings of the rows need them.

    Attributes
    ----------
    groups : list of (int, int, int)
        First component, number of mixtures, and components of each, of mixtures of one size.
    apart : list of (int, array (p,), array (p, p), array ())
        Components that are told by differences: number, mean, factor and constant.
    """

    coefficients: Array
    groups: list[tuple[int, int, int]]
    apart: list[tuple[int, Array, Array, Array]]

    @classmethod
    def of(cls, kind: Kind, found: Components, space: Space) -> "_Now":
        coefficients = kind.coefficients(found, space)
        which = kind.apart(found)
        apart = []
        if len(which):
            assert found.factors is not None
            constants = kind.constants(found, space)
            apart = [
                (int(k), found.means[int(k), :], found.factors[int(k), ...], constants[int(k)])
                for k in which
            ]
        return cls(coefficients, _groups(found.sizes), apart)

    def at(self, like: Array) -> "_Now":
        """The same, where rows are."""
        apart = [(k, *(here(a, like) for a in arrays)) for k, *arrays in self.apart]
        return _Now(here(self.coefficients, like), self.groups, apart)

    def shares(self, features: Array, Z: Array) -> tuple[Array, Array]:
        """Shares (K, m) of the components in rows Z (p, m), and sums (R,) of log densities."""
        xp = namespace(Z)
        logs = self.coefficients @ features
        for k, mean, factor, value in self.apart:
            away = factor.T @ (Z - mean[:, None])
            logs[k, :] = value - 0.5 * xp.sum(away * away, axis=0)
        sums = []
        for first, n_runs, size in self.groups:
            own = slice(first, first + n_runs * size)
            some = xp.reshape(logs[own, :], (n_runs, size, -1))
            most = xp.max(some, axis=1, keepdims=True)
            some -= most
            some = xp.exp(some)
            total = xp.sum(some, axis=1, keepdims=True)
            some /= total
            logs[own, :] = xp.reshape(some, (n_runs * size, -1))
            sums.append(xp.sum(xp.log(total) + most, axis=(1, 2)))
        return logs, xp.concat(sums)


def _groups(sizes: np.ndarray) -> list[tuple[int, int, int]]:
    found, first = [], 0
    for size, alike in groupby(sizes.tolist()):
        n_runs = len(list(alike))
        found.append((first, n_runs, size))
        first += n_runs * size
    return found


@dataclass(frozen=True)
class _Start:
    """Reads sums over shares that are known, of the mixtures that begin in a shard."""

    kind: Kind

    def at(self, like: Array) -> "_Start":
        """The same, where rows are."""
        return self

    def shares(self, shard: Shard, tile: slice, Z: Array, features: Array) -> Array:
        return namespace(Z).concat([start.shares(tile) for start in shard.starts])

    def __call__(self, shard: Shard, tile: slice, Z: Array, features: Array) -> Sequence[Array]:
        return [self.kind.sums(features, self.shares(shard, tile, Z, features), Z)]


@dataclass(frozen=True)
class _Step:
    """Reads sums over shares, and of log densities, of mixtures under way."""

    kind: Kind
    now: _Now

    def at(self, like: Array) -> "_Step":
        """The same, where rows are."""
        return _Step(self.kind, self.now.at(like))

    def shares(self, shard: Shard, tile: slice, Z: Array, features: Array) -> Array:
        return self.now.shares(features, Z)[0]

    def __call__(self, shard: Shard, tile: slice, Z: Array, features: Array) -> Sequence[Array]:
        own, logs = self.now.shares(features, Z)
        return [self.kind.sums(features, own, Z), logs]


@dataclass(frozen=True)
class _Scatter:
    """Reads squares of the differences of rows to some means, by shares of some components."""

    step: _Start | _Step
    which: np.ndarray
    means: Array

    @property
    def kind(self) -> Kind:
        return self.step.kind

    def at(self, like: Array) -> "_Scatter":
        """The same, where rows are."""
        return _Scatter(self.step.at(like), self.which, here(self.means, like))

    def __call__(self, shard: Shard, tile: slice, Z: Array, features: Array) -> Sequence[Array]:
        own = self.step.shares(shard, tile, Z, features)
        away = (Z - self.means[j, :][:, None] for j in range(len(self.which)))
        pairs = zip(away, self.which.tolist(), strict=True)
        return [namespace(Z).stack([scattered(each, own[k, :]) for each, k in pairs])]


def _read(shard, reading, n_components, threads):
    """What a reading sums over the tiles of a shard, in order."""
    rows, kind = shard.rows, reading.kind
    reading = reading.at(rows)

    def said(tile):
        Z = rows[:, tile]
        return reading(shard, tile, Z, kind.features(Z))

    tiles = list(_tiles(rows, n_components + 2 * kind.n_features(rows.shape[0])))
    threads = min(threads, len(tiles))
    parts = map(said, tiles) if threads == 1 else ordered_map(said, tiles, threads)
    total = next(parts)
    for part in parts:
        total = added(total, part)
    return total


def _tiles(rows: Array, n_numbers: int) -> Iterator[slice]:
    size = HOST_TILE_BYTES if place_of(rows).is_host else TILE_BYTES
    step, n = max(LEAST_TILE, size // (8 * n_numbers)), rows.shape[1]
    for start in range(0, max(n, 1), step):
        yield slice(start, min(start + step, n))


# ---------------------------------------------------------------- starts


def begun(
    kind: Kind,
    space: Space,
    starts: Sequence[Any],
    regs: Sequence[float],
    precision: float,
    *,
    complete: bool,
) -> Components:
    """Mixtures from shares of their components in the rows.

    Parameters
    ----------
    starts : sequence of R starts
        Each with a `size`, ``shares(rows)`` (k, m), and ``part(first, stop)``, the same of some of
        the rows.
    regs : sequence of R floats
    precision : float
        Distance from 1 to the next number of the user's dtype.
    complete : bool
        Whether the shares of a mixture sum to 1 in each row.
    """
    sizes = np.asarray([start.size for start in starts])
    reading = _Start(kind.of_components(int(sizes.sum()), place_of(space.origin)))
    shards = space.begun_by(starts)
    [found] = shards.total(_read, reading, int(sizes.sum()), space.threads)

    def scatter(which: np.ndarray, means: Array) -> Array:
        again = _Scatter(reading, which, means)
        return shards.total(_read, again, len(which), space.threads)[0]

    told = _told(space, sizes, regs, precision, scatter, complete=complete)
    return reading.kind.update(space, found, told)


def _told(space, sizes, regs, precision, scatter, *, complete=True):
    reg = constant(np.repeat(regs, sizes), like=space.origin, xp=namespace(space.origin))
    return Told(sizes, reg, LEAST_SHARES * precision, complete, scatter)


# ---------------------------------------------------------------- all runs together


def expectation_maximisation(
    kind: Kind,
    space: Space,
    runs: Sequence[Run],
    precision: float,
    told: Callable[[int, float, float], None] | None = None,
) -> list[End]:
    """The mixtures in which the runs end.

    Parameters
    ----------
    kind : Kind
    space : Space
    runs : list of Run
    precision : float
        As of `begun`.
    told : callable, optional
        Told of the steps of a single run: their number, the mean log density and its change.

    Raises
    ------
    ValueError
        If a covariance is not positive definite.
    """
    ends = [End(run.weights, run.means, run.covariances) for run in runs]
    left = np.asarray([r for r in _by_size(runs) if runs[r].max_iter > 0], dtype=np.intp)
    if len(left) == 0:
        return ends
    found = joined(kind, [runs[r] for r in left])
    last = np.asarray([runs[r].bound for r in left])
    place = place_of(space.origin)
    for n_iter in range(1, max(run.max_iter for run in runs) + 1):
        kind = kind.of_components(found.means.shape[0], place)
        found, bounds = _step(kind, space, found, [runs[r].reg for r in left], precision)
        for r, bound in zip(left, bounds, strict=True):
            ends[r].bounds.append(np.float64(float(bound)))
        if told is not None:
            told(n_iter, float(bounds[0]), float(bounds[0] - last[0]))
        with np.errstate(invalid="ignore"):
            converged = np.abs(bounds - last) < np.asarray([runs[r].tol for r in left])
        done = converged | (np.asarray([runs[r].max_iter for r in left]) == n_iter)
        for at in np.flatnonzero(done):
            end = ends[left[at]]
            end.converged = bool(converged[at])
            one = kind.taken(found, np.asarray([at]))
            shape = runs[left[at]].covariances.shape
            covariances = namespace(one.means).reshape(one.covariances, shape)
            end.weights, end.means, end.covariances = one.weights, one.means, covariances
        left, last = left[~done], bounds[~done]
        if len(left) == 0:
            break
        if done.any():
            found = kind.taken(found, np.flatnonzero(~done))
    return ends


def _by_size(runs: Sequence[Run]) -> list[int]:
    return sorted(range(len(runs)), key=lambda r: runs[r].size)


def joined(kind: Kind, runs: Sequence[Run]) -> Components:
    """Runs side by side, with the factors of their precisions."""
    xp = namespace(runs[0].means)
    covariances = xp.concat([run.covariances for run in runs])
    return Components(
        np.asarray([run.size for run in runs]),
        xp.concat([run.weights for run in runs]),
        xp.concat([run.means for run in runs]),
        covariances,
        kind.factors(covariances),
    )


def _step(kind, space, found, regs, precision):
    """New components, and mean log densities (R,) of the old ones, in CPU memory."""
    reading = _Step(kind, _Now.of(kind, found, space))
    n_components = found.means.shape[0]
    sums, logs = space.shards.total(_read, reading, n_components, space.threads)
    bounds = logs / space.n_rows + kind.left_out(found, space)

    def scatter(which, means):
        mixtures = np.unique(found.owners[which])
        kept = np.flatnonzero(np.isin(found.owners, mixtures))
        some = _Step(kind, _Now.of(kind, kind.taken(found, mixtures), space))
        again = _Scatter(some, np.searchsorted(kept, which), means)
        return space.shards.total(_read, again, len(which), space.threads)[0]

    told = _told(space, found.sizes, regs, precision, scatter)
    return kind.update(space, sums, told), to_host(bounds)
