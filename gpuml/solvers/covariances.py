"""Covariances of parts of rows, and normal densities from them.

A part of n rows is known by its mean m and covariance C about it. About any other place l it has
the second moments ``C + (m - l)(m - l)'``, so that the mean logarithm of a normal density with
location l and precision P over its rows is

    ``(log |P| - p log 2 pi - tr(P (C + (m - l)(m - l)'))) / 2``.

Where rows are fewer than features, ``C = A'A`` of their deviations A, and C is made only if asked
for: A has fewer numbers.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import EPS
from gpuml._arrays.threads import threads_for_order
from gpuml.solvers.affine import transformed
from gpuml.solvers.described import Described, all_rows, rows_of_parts, training_parts
from gpuml.solvers.factors import centred_rows
from gpuml.solvers.moments import Moments, fourth_powers, normal_equations


@dataclass(frozen=True)
class Sample:
    """Some rows.

    Attributes
    ----------
    n_rows : int
    mean : array (p,)
    moments : array (p, p), or None
        Covariance about the mean; None where `deviations` are known.
    deviations : array (m, p), or None
        Their products are the covariance.
    lengths : Moments or None
        Of atoms, with squared lengths of rows, of which `fourth` is made.
    counts : ndarray (1, A)
        How often each atom is among the rows.
    known : dict
        What was made of the rows so far.
    """

    n_rows: int
    mean: Array
    moments: Array | None
    deviations: Array | None = None
    lengths: Moments | None = None
    counts: Any = None
    known: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def covariance(self) -> Array:
        """The covariance (p, p)."""
        if self.moments is not None:
            return self.moments
        assert self.deviations is not None
        return self.deviations.T @ self.deviations

    @cached_property
    def variance(self) -> Array:
        """Variances (p,)."""
        if self.deviations is None:
            return namespace(self.mean).linalg.diagonal(self.covariance)
        return namespace(self.mean).sum(self.deviations**2, axis=0)

    def about(self, location: Array) -> Array:
        """Second moments (p, p) about a location (p,)."""
        away = self.mean - location
        return self.covariance + away[:, None] * away[None, :]

    def along(self, turn: Array, location: Array) -> Array:
        """Second moments (k, k) of images under a turn (k, p) about that of a location (p,)."""
        away = turn @ (self.mean - location)
        if self.deviations is None:
            spread = turn @ self.covariance @ turn.T
        else:
            images = turn @ self.deviations.T
            spread = images @ images.T
        return spread + away[:, None] * away[None, :]

    def fourth(self, location: Array) -> Array:
        """Mean of the fourth powers of distances from a location (p,)."""
        assert self.lengths is not None
        return fourth_powers(self.lengths, self.counts, location[None, :])[0] / self.n_rows


def samples(described: Described, part: str) -> list[Sample]:
    """The "train" or "test" rows of each split, or "all" rows."""
    folds = described.folds
    if part == "all":
        parts = [all_rows(folds)]
    else:
        parts = [
            replace(training, counts=getattr(partition, part))
            for training, partition in zip(training_parts(folds), folds.partitions, strict=True)
        ]
    make = _from_rows if described.moments is None else _from_moments
    return [sample for each in parts for sample in make(described, each)]


def _from_moments(described, parts):
    folds, counts = described.folds, parts.counts
    sums = described.moments[parts.index].combine(counts)
    if folds.frame is not None:
        sums = transformed(sums, folds.frame.of(parts.splits))
    mean, covariance = _about_mean(sums)
    lengths = folds.known.get("lengths")
    lengths = None if lengths is None else lengths[parts.index]
    return [
        Sample(n, mean[s, :], covariance[s, ...], None, lengths, counts[s : s + 1])
        for s, n in enumerate(rows_of_parts(folds, parts))
    ]


def _from_rows(described, parts):
    found = []
    for s, n in enumerate(rows_of_parts(described.folds, parts)):
        rows = centred_rows(described.stacked(parts.part(s)), True)
        found.append(Sample(n, rows.x_mean, None, rows.A / float(np.sqrt(n))))
    return found


def _about_mean(moments: Moments) -> tuple[Array, Array]:
    """Means (S, p) and covariances (S, p, p), with zeros for features that are constant."""
    normal = normal_equations(moments, True)
    xp = namespace(normal.xx)
    xp_some = xp.astype(xp.linalg.diagonal(normal.xx) > normal.noise, xp.float64)
    n_rows = moments.gram[:, -1, -1][:, None, None]
    return normal.x_mean, normal.xx * xp_some[:, :, None] * xp_some[:, None, :] / n_rows


# ---------------------------------------------------------------- shrinkage


def shrunk(matrix: Array, share: Any) -> Array:
    """Covariances (..., p, p), drawn to the multiple of the identity that has the same trace."""
    if not share:
        return matrix
    xp, p = namespace(matrix), matrix.shape[-1]
    level = xp.sum(xp.linalg.diagonal(matrix), axis=-1)[..., None, None] / p
    eye = xp.eye(p, dtype=matrix.dtype, device=device_of(matrix))
    return (1.0 - share) * matrix + share * level * eye


def ledoit_wolf_share(n_rows: int, matrix: Array, fourth: Array) -> float:
    """The share of shrinkage of Ledoit and Wolf.

    Of n rows with second moments (p, p) about their location and a mean `fourth` of the fourth
    powers of their distances from it. One feature is not shrunk.
    """
    xp, p = namespace(matrix), matrix.shape[-1]
    if p == 1:
        return 0.0
    trace, squares = float(xp.linalg.trace(matrix)), float(xp.sum(matrix**2))
    distance = (squares - trace**2 / p) / p
    error = min((float(fourth) - squares) / (p * n_rows), distance)
    return 0.0 if error == 0 else error / distance


def oas_share(n_rows: int, matrix: Array) -> float:
    """The share of shrinkage that approximates an oracle's, of n rows as in `ledoit_wolf_share`."""
    xp, p = namespace(matrix), matrix.shape[-1]
    if p == 1:
        return 0.0
    squares = float(xp.mean(matrix**2))
    level = (float(xp.linalg.trace(matrix)) / p) ** 2
    denominator = (n_rows + 1) * (squares - level / p)
    return 1.0 if denominator == 0 else min((squares + level) / denominator, 1.0)


# ---------------------------------------------------------------- densities


def spectrum(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues (p,) and eigenvectors (p, p) of a symmetric matrix."""
    with threads_for_order(matrix.shape[-1]):
        return namespace(matrix).linalg.eigh(matrix)


def inverted(values: Array) -> Array:
    """Inverse eigenvalues (..., p), with 0 for rounding, as in `scipy.linalg.pinvh`."""
    xp = namespace(values)
    sizes = xp.abs(values)
    kept = sizes > values.shape[-1] * EPS * xp.max(sizes, axis=-1, keepdims=True)
    return xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)


def pseudo_inverse(matrix: Array) -> Array:
    """Of a symmetric matrix (p, p), float64."""
    values, vectors = spectrum(matrix)
    return (vectors * inverted(values)) @ vectors.T


def log_determinant(inverse: Array) -> Array:
    """``log |P|`` (...) of eigenvalues (..., p) of P; minus infinity unless P has full rank."""
    xp = namespace(inverse)
    positive = inverse > 0
    logarithms = xp.log(xp.where(positive, inverse, 1.0))
    return xp.sum(xp.where(positive, logarithms, -float("inf")), axis=-1)


def log_likelihood(distance: Array, determinant: Array, n_features: int) -> Array:
    """From ``tr(P S)``, ``log |P|`` and the number of features: see the formula above."""
    return 0.5 * (determinant - distance - n_features * float(np.log(2.0 * np.pi)))


def normal_likelihood(moments: Array, precision: Array) -> Array:
    """The same from second moments (p, p) about the location, and the precision (p, p)."""
    xp = namespace(precision)
    values = xp.linalg.eigvalsh(precision)
    # Of a pseudo-inverse, what is rounding next to the others is zero.
    values = xp.where(values > values.shape[0] * EPS * xp.max(xp.abs(values)), values, 0.0)
    distance = xp.sum(moments * precision)
    return log_likelihood(distance, log_determinant(values), precision.shape[0])
