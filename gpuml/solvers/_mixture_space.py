"""Rows as Gaussian mixtures see them, and records of mixtures side by side."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import EPS
from gpuml.solvers.covariances import spectrum
from gpuml.solvers.gaussians import ILL_DEFINED


@dataclass(frozen=True)
class Space:
    """Rows as mixtures see them: ``z = (x - origin) turn``.

    Attributes
    ----------
    rows : array (p, n), float64
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

    rows: Array
    origin: Array
    zero: Array
    turn: Array | None
    back: Array | None
    ridge: Array
    log_det: float
    total: Array | None
    threads: int = 1

    @classmethod
    def of(cls, X: Array, *, turned: bool, least_reg: float, threads: int = 1) -> "Space":
        """Of rows (n, p); `least_reg` is the least number that is added to variances."""
        xp = namespace(X)
        X = xp.astype(X, xp.float64, copy=False)
        origin = xp.mean(X, axis=0)
        rows = xp.asarray((X - origin).T, copy=True)
        if not turned:
            ones = xp.ones_like(origin)
            return cls(rows, origin, origin, None, None, ones, 0.0, None, threads)
        n, p = X.shape
        values, vectors = spectrum(rows @ rows.T / n)
        most = float(xp.max(xp.abs(values)))
        if not np.isfinite(most):
            raise ValueError("Squares of X are too large for float64. Scale the features of X.")
        floor = max(least_reg, p * EPS * most) or 1.0
        if least_reg == 0 and float(xp.min(values)) <= p * EPS * most:
            raise ValueError(ILL_DEFINED)
        values = xp.clip(values, min=0.0) + floor
        turn = vectors / xp.sqrt(values)
        back = (vectors * xp.sqrt(values)).T
        rows = turn.T @ rows
        log_det = -0.5 * float(xp.sum(xp.log(values)))
        zero, total = origin @ turn, rows @ rows.T
        return cls(rows, origin, zero, turn, back, 1.0 / values, log_det, total, threads)

    @property
    def n_rows(self) -> int:
        return self.rows.shape[1]

    def means_inward(self, means: Array) -> Array:
        """Means (k, p) of the user's."""
        away = means - self.origin
        return away if self.turn is None else away @ self.turn

    def means_outward(self, means: Array) -> Array:
        """Means (k, p) for the user."""
        return (means if self.back is None else means @ self.back) + self.origin


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
