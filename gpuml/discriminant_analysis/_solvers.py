"""Linear discriminants of one training part, by scikit-learn's three solvers."""

from dataclasses import dataclass
from typing import Any

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import EPS
from gpuml.discriminant_analysis._scatter import Scatter
from gpuml.solvers.covariances import spectrum


@dataclass(frozen=True)
class Discriminants:
    """Of k classes and p features.

    Attributes
    ----------
    coef : array (k, p)
    intercept : array (k,)
    scalings : array (p, r), or None
    ratio : array (r,), or None
        Shares of the variance between classes that components explain.
    """

    coef: Array
    intercept: Array
    scalings: Array | None = None
    ratio: Array | None = None


def by_least_squares(scatter: Scatter, covariance: Array, priors: Array) -> Discriminants:
    """The coefficients alone, of least norm where the covariance is singular."""
    half = _half_inverse(covariance)
    return _from_scalings(scatter.means, half, priors)


def by_eigenvectors(
    scatter: Scatter, covariance: Array, total: Array, priors: Array
) -> Discriminants:
    """Directions that spread the classes most, for the scatter within them."""
    xp = namespace(covariance)
    half = _half_inverse(covariance)
    values, vectors = spectrum(half.T @ (total - covariance) @ half)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    scalings = _turned(half @ vectors)
    found = _from_scalings(scatter.means, scalings, priors)
    return Discriminants(found.coef, found.intercept, scalings, values / xp.sum(values))


def by_svd(scatter: Scatter, priors: Array, tol: float) -> Discriminants:
    """Whitened features, and the directions among them in which means of classes differ."""
    xp, n_classes = namespace(scatter.within), scatter.means.shape[0]
    deviation = xp.sqrt(xp.linalg.diagonal(scatter.within))
    deviation = xp.where(deviation == 0, 1.0, deviation)
    values, vectors = spectrum(scatter.within / deviation[:, None] / deviation[None, :])
    # Squares of the singular values of standardised rows.
    least = max(tol**2, EPS * values.shape[0] * float(values[-1]))
    rank = int(xp.sum(xp.astype(values > least, xp.int64)))
    values, vectors = xp.flip(values)[:rank], xp.flip(vectors, axis=1)[:, :rank]
    white = vectors / deviation[:, None] / xp.sqrt(values)
    mean = priors @ scatter.means
    weight = xp.sqrt(priors * xp.sum(scatter.counts) / max(n_classes - 1, 1))
    _, size, right = xp.linalg.svd(
        weight[:, None] * ((scatter.means - mean) @ white), full_matrices=False
    )
    kept = int(xp.sum(xp.astype(size > tol * xp.max(size), xp.int64))) if rank else 0
    scalings = _turned(white @ right.T[:, :kept])
    away = (scatter.means - mean) @ scalings
    coef = away @ scalings.T
    intercept = xp.log(priors) - 0.5 * xp.sum(away**2, axis=1) - coef @ mean
    return Discriminants(coef, intercept, scalings, size**2 / xp.sum(size**2))


def _half_inverse(covariance: Array) -> Array:
    """R (p, r) with ``R R'`` the pseudo-inverse of a covariance (p, p)."""
    xp = namespace(covariance)
    values, vectors = spectrum(covariance)
    first = int(xp.sum(xp.astype(values <= EPS * values.shape[0] * values[-1], xp.int64)))
    return vectors[:, first:] / xp.sqrt(values[first:])


def _from_scalings(means: Array, scalings: Array, priors: Array) -> Discriminants:
    xp: Any = namespace(means)
    images = means @ scalings
    coef = images @ scalings.T
    return Discriminants(coef, xp.log(priors) - 0.5 * xp.sum(images**2, axis=1))


def _turned(scalings: Array) -> Array:
    """The same directions; the largest number of each is positive, whatever LAPACK chose."""
    xp = namespace(scalings)
    largest = xp.argmax(xp.abs(scalings), axis=0)[None, :]
    return scalings * xp.sign(xp.take_along_axis(scalings, largest, axis=0))
