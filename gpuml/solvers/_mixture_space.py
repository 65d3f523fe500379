"""Rows as Gaussian mixtures see them, and records of mixtures side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._arrays.ops import EPS, clipped
from gpuml.data import Holders
from gpuml.solvers.covariances import spectrum
from gpuml.solvers.gaussians import ILL_DEFINED


@dataclass(frozen=True)
class Spread:
    """Something made of rows that is here, or whose pieces holders have."""

    here: Any = None
    holders: Holders | None = None

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "Spread":
        """What a function makes of it; holders may have arguments of their own."""
        if self.holders is not None:
            return Spread(None, self.holders.map(function, *args, each_with=each_with))
        own = () if each_with is None else (each_with[0],)
        return Spread(function(self.here, *args, *own))

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sums that a function makes of it, one array or several."""
        if self.holders is not None:
            return self.holders.total(function, *args, combine=added)
        return function(self.here, *args)


def added(one: Any, other: Any) -> Any:
    """Sums of two pieces."""
    if isinstance(one, list | tuple):
        return [a + b for a, b in zip(one, other, strict=True)]
    return one + other


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers, here or divided.

    Attributes
    ----------
    spread : Spread
        Of arrays (n, p).
    sizes : ndarray
        Rows of each piece.
    n_features : int
    like : array
        Where sums over the rows are, of the dtype of the rows.
    """

    spread: Spread
    sizes: np.ndarray
    n_features: int
    like: Array

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def is_divided(self) -> bool:
        return self.spread.holders is not None


def matrix(X: Array) -> Matrix:
    """Rows (n, p) that are here."""
    return Matrix(Spread(X), np.asarray([X.shape[0]]), X.shape[1], X)


@dataclass(frozen=True)
class Shard:
    """Rows (p, m) as a space has them, and where mixtures begin in them."""

    rows: Array
    starts: Sequence[Any] = field(default=())


@dataclass(frozen=True)
class Space:
    """Rows as mixtures see them: ``z = (x - origin) turn``.

    Attributes
    ----------
    shards : Spread
        Of `Shard`s, in float64.
    sizes : ndarray
        Rows of each.
    origin : array (p,)
        The mean of the rows.
    zero : array (p,)
        The origin of the user's coordinates is at ``-zero``.
    turn, back : arrays (p, p) or None
        And its inverse; None for the identity.
    ridge : array (p,)
        What a unit matrix is here, which is diagonal.
    log_det : float
        Of the turn.
    total : array (p, p) or None
        Sums of products of all rows.
    threads : int
        That read rows in CPU memory.
    """

    shards: Spread
    sizes: np.ndarray
    origin: Array
    zero: Array
    turn: Array | None
    back: Array | None
    ridge: Array
    log_det: float
    total: Array | None
    threads: int = 1

    @classmethod
    def of(cls, rows: Matrix, *, turned: bool, least_reg: float, threads: int = 1) -> "Space":
        """Of rows; `least_reg` is the least number that is added to variances."""
        n, p = rows.n_rows, rows.n_features
        origin = mean_of(rows)
        shards, xp = rows.spread.map(_centred, origin), namespace(origin)
        if not turned:
            ones = xp.ones_like(origin)
            return cls(shards, rows.sizes, origin, origin, None, None, ones, 0.0, None, threads)
        values, vectors = spectrum(shards.total(_products) / n)
        most = float(xp.max(xp.abs(values)))
        if not np.isfinite(most):
            raise ValueError("Squares of X are too large for float64. Scale the features of X.")
        floor = max(least_reg, p * EPS * most) or 1.0
        if least_reg == 0 and float(xp.min(values)) <= p * EPS * most:
            raise ValueError(ILL_DEFINED)
        values = clipped(values, 0.0) + floor
        turn = vectors / xp.sqrt(values)
        back = (vectors * xp.sqrt(values)).T
        shards = shards.map(_turned, turn)
        log_det = -0.5 * float(xp.sum(xp.log(values)))
        zero, total, ridge = origin @ turn, shards.total(_products), 1.0 / values
        return cls(shards, rows.sizes, origin, zero, turn, back, ridge, log_det, total, threads)

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def n_features(self) -> int:
        return self.origin.shape[0]

    def begun_by(self, starts: Sequence[Any]) -> Spread:
        """The shards, with starts of mixtures in their rows."""
        ends = np.cumsum(self.sizes)
        spans = zip(ends - self.sizes, ends, strict=True)
        own = [[start.part(int(first), int(end)) for start in starts] for first, end in spans]
        return self.shards.map(_begun, each_with=own)

    def means_inward(self, means: Array) -> Array:
        """Means (k, p) of the user's."""
        away = means - self.origin
        return away if self.turn is None else away @ self.turn

    def means_outward(self, means: Array) -> Array:
        """Means (k, p) for the user."""
        return (means if self.back is None else means @ self.back) + self.origin


def mean_of(rows: Matrix) -> Array:
    """The mean (p,) of all rows, in float64."""
    if rows.is_divided:
        return rows.spread.total(_sums) / rows.n_rows
    X = rows.spread.here
    xp = namespace(X)
    return xp.mean(xp.astype(X, xp.float64, copy=False), axis=0)


def here(value: Array, like: Array) -> Array:
    """What the caller of a function of a piece sent, where the rows of the piece are."""
    return move(value, place_of(like))


def _sums(X):
    xp = namespace(X)
    return xp.sum(xp.astype(X, xp.float64, copy=False), axis=0)


def _centred(X, origin):
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    return Shard(xp.asarray((X - here(origin, X)).T, copy=True))


def _products(shard):
    return shard.rows @ shard.rows.T


def _turned(shard, turn):
    return Shard(here(turn, shard.rows).T @ shard.rows)


def _begun(shard, starts):
    return replace(shard, starts=[start.at(shard.rows) for start in starts])


@dataclass(frozen=True)
class Components:
    """Mixtures side by side, those of equally many components next to each other.

    Attributes
    ----------
    sizes : ndarray (R,)
        Components of each.
    weights : array (K,)
    means : array (K, p)
    covariances : array (K, p, p), (R, p, p) or (K, p)
        Of "full", of "tied", and of the others.
    factors : array or None
        U of the precisions, of matrices.
    """

    sizes: np.ndarray
    weights: Array
    means: Array
    covariances: Array
    factors: Array | None = None

    @property
    def owners(self) -> np.ndarray:
        """The mixture of each component (K,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


# Given components (J,) and means (J, p): sums of squares of the differences (J, p, p), by shares.
Scatter = Callable[[np.ndarray, Array], Array]


@dataclass(frozen=True)
class Told:
    """The input of an update of the components, besides sums.

    Attributes
    ----------
    sizes : ndarray (R,)
    reg : array (K,)
        What is added to variances.
    least : float
        What is added to sums of shares, so that none is 0.
    complete : bool
        Whether the shares of all components in a row sum to 1.
    scatter : callable
    """

    sizes: np.ndarray
    reg: Array
    least: float
    complete: bool
    scatter: Scatter
