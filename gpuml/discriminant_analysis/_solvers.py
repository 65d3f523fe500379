"""Linear discriminants of one training part, by scikit-learn's three solvers."""

from dataclasses import dataclass

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import EPS
from gpuml.discriminant_analysis._scatter import Scatter
from gpuml.solvers.covariances import spectrum


@dataclass(frozen=True)
class Discriminants:
    """A model of k classes and p features.

    Attributes
    ----------
    coef : array (k, p)
    intercept : array (k,)
    scalings : array (p, r)
    ratio : array (r,)
        Shares of the variance between classes that components explain.
    """

    coef: Array
    intercept: Array
    scalings: Array
    ratio: Array


@dataclass(frozen=True)
class Within:
    """Eigenvalues (p,), from small to large, and eigenvectors (p, p) of a covariance.

    Shrinkage moves the values alone, so that they serve any share of it.
    """

    values: Array
    vectors: Array

    @classmethod
    def of(cls, covariance: Array) -> "Within":
        """Of a covariance (p, p) within the classes."""
        return cls(*spectrum(covariance))

    def shrunk(self, shares: Array) -> Array:
        """Eigenvalues (C, p) of the covariances that so large shares (C,) of shrinkage leave."""
        shares = shares[:, None]
        return (1.0 - shares) * self.values + shares * namespace(shares).mean(self.values)


def by_least_squares(
    means: Array, within: Within, values: Array, priors: Array
) -> tuple[Array, Array]:
    """Coefficients (C, k, p) and intercepts (C, k) of C models with means (k, p) of the classes.

    Their covariances have eigenvalues (C, p); coefficients are of least norm where they are
    singular.
    """
    xp = namespace(means)
    kept = ~_is_rounding(values)
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)
    images = means @ within.vectors
    weighted = images * inverse[:, None, :]  # (C, k, p)
    return weighted @ within.vectors.T, xp.log(priors) - 0.5 * xp.sum(weighted * images, axis=-1)


def by_eigenvectors(between: Array, within: Within, values: Array) -> tuple[Array, Array]:
    """Directions (p, r) that spread the classes most, and their shares (r,) of the spread.

    For the scatter (p, p) between the classes, and eigenvalues (p,) of the covariance within them.
    """
    xp = namespace(between)
    first = int(xp.sum(xp.astype(_is_rounding(values), xp.int64)))
    half = within.vectors[:, first:] / xp.sqrt(values[first:])
    spread, vectors = spectrum(half.T @ between @ half)
    scalings = _turned(half @ xp.flip(vectors, axis=1))
    return scalings, xp.flip(spread) / xp.sum(spread)


def standardised(scatter: Scatter) -> Array:
    """The covariance (p, p) within the classes, of features of unit deviation there."""
    deviation = _deviation(scatter)
    return scatter.within / deviation[:, None] / deviation[None, :]


def _deviation(scatter):
    xp = namespace(scatter.within)
    deviation = xp.sqrt(xp.linalg.diagonal(scatter.within))
    return xp.where(deviation == 0, 1.0, deviation)


def _is_rounding(values: Array) -> Array:
    """Which of eigenvalues (..., p), from small to large, are nothing beside the largest."""
    return values <= EPS * values.shape[-1] * values[..., -1:]


def by_svd(scatter: Scatter, within: Within, priors: Array, tol: float) -> Discriminants:
    """Whitened features, and the directions among them in which means of classes differ.

    `within` is that of `standardised` features.
    """
    xp, n_classes = namespace(scatter.within), scatter.means.shape[0]
    deviation, values, vectors = _deviation(scatter), within.values, within.vectors
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


def _turned(scalings: Array) -> Array:
    """The same directions; the largest number of each is positive, whatever LAPACK chose."""
    xp = namespace(scalings)
    largest = xp.argmax(xp.abs(scalings), axis=0)[None, :]
    return scalings * xp.sign(xp.take_along_axis(scalings, largest, axis=0))
