"""Covariances of parts of rows, and normal densities from them.

A part of n rows is known by its mean m and covariance C about it. About any other place l it has
the second moments ``C + (m - l)(m - l)'``, so that the mean logarithm of a normal density with
location l and precision P over its rows is

    ``(log |P| - p log 2 pi - tr(P (C + (m - l)(m - l)'))) / 2``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import EPS
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Folds, count_rows
from gpuml.solvers.affine import transformed
from gpuml.solvers.moments import Moments, fourth_powers, normal_equations


@dataclass(frozen=True)
class Sample:
    """Some rows.

    Attributes
    ----------
    n_rows : int
    mean : array (p,)
    covariance : array (p, p)
        About the mean.
    lengths : Moments or None
        Of atoms, with squared lengths of rows, of which `fourth` is made.
    counts : ndarray (1, A)
        How often each atom is among the rows.
    known : dict
        What was made of the rows so far.
    """

    n_rows: int
    mean: Array
    covariance: Array
    lengths: Moments | None = None
    counts: Any = None
    known: dict[Any, Any] = field(default_factory=dict)

    def about(self, location: Array) -> Array:
        """Second moments (p, p) about a location (p,)."""
        away = self.mean - location
        return self.covariance + away[:, None] * away[None, :]

    def fourth(self, location: Array) -> Array:
        """Mean of the fourth powers of distances from a location (p,)."""
        assert self.lengths is not None
        return fourth_powers(self.lengths, self.counts, location[None, :])[0] / self.n_rows


def samples(
    folds: Folds,
    moments: Sequence[Moments],
    part: str,
    lengths: Sequence[Moments] | None = None,
) -> list[Sample]:
    """The "train" or "test" rows of each split, or "all" rows, of atoms with some moments."""
    found = []
    partitions = folds.partitions[:1] if part == "all" else folds.partitions
    for i, partition in enumerate(partitions):
        if part == "all":
            counts, splits = np.ones((1, len(partition.atoms))), None
        else:
            counts = getattr(partition, part)
            splits = slice(partition.first_split, partition.first_split + partition.n_splits)
        sums = moments[i].combine(counts)
        if folds.frame is not None:
            sums = transformed(sums, folds.frame.of(splits))
        n_rows = counts @ np.asarray([count_rows(atom) for atom in partition.atoms])
        mean, covariance = _about_mean(sums)
        found += [
            Sample(
                int(n_rows[s]),
                mean[s, :],
                covariance[s, ...],
                None if lengths is None else lengths[i],
                counts[s : s + 1],
            )
            for s in range(len(counts))
        ]
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
