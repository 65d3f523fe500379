"""Least squares on subsets of the features: one feature more or less is a sweep of the sums.

The matrix of second moments of features and targets, swept over the features that a model has,
holds the model's coefficients, the inverse of its normal equations, and what every other feature
would add [1]_. A sweep takes as many operations as the matrix has numbers, whereas each of the
models beside it would take the cube of its features.

References
----------
.. [1] J. H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gpuml.solvers.moments import Moments, normal_equations

# Share of the squares of a feature that others leave, below which its coefficient is rounding.
LEAST_PIVOT = 1e-8


@dataclass
class Swept:
    """Models of several training parts, each on a subset of the features; in CPU memory.

    Attributes
    ----------
    matrix : ndarray (S, p + t, p + t)
        Second moments of scaled features and of targets, swept over those that are `used`.
    scale : ndarray (S, p)
        What coefficients of scaled features are multiplied with.
    used : bool ndarray (S, p)
    x_mean, y_mean : ndarrays (S, p) and (S, t)
        0 where no intercept is fitted.
    """

    matrix: np.ndarray
    scale: np.ndarray
    used: np.ndarray
    x_mean: np.ndarray
    y_mean: np.ndarray

    @classmethod
    def of(cls, moments: Moments, alpha: float, *, fit_intercept: bool) -> "Swept":
        """Models without features, of moments (S, q, q) with a ridge penalty."""
        normal = normal_equations(moments, fit_intercept)
        n_splits, p, t = normal.xy.shape
        squares = np.einsum("sjj->sj", normal.xx) - normal.noise
        there = squares > 0
        scale = np.where(there, 1.0 / np.sqrt(np.where(there, squares + alpha, 1.0)), 0.0)
        matrix = np.zeros((n_splits, p + t, p + t))
        matrix[:, :p, :p] = normal.xx * scale[:, :, None] * scale[:, None, :]
        # Features that do not vary have coefficients 0, whatever else is in the model.
        matrix[:, np.arange(p), np.arange(p)] += np.where(there, alpha * scale**2, 1.0)
        cross = normal.xy * scale[:, :, None]
        matrix[:, :p, p:], matrix[:, p:, :p] = cross, np.swapaxes(cross, 1, 2)
        return cls(matrix, scale, np.zeros((n_splits, p), bool), normal.x_mean, normal.y_mean)

    @classmethod
    def joined(cls, parts: "Sequence[Swept]") -> "Swept":
        """Models of several partitions, as of one."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(a, name) for a in parts]) for name in names})

    @property
    def pivots(self) -> np.ndarray:
        """What others leave of the square 1 of each feature, (S, p)."""
        diagonal = np.einsum("sjj->sj", self.matrix)[:, : self.used.shape[1]]
        # An inverse without a diagonal is rounding alone: features are combinations of others.
        inverse = np.where(self.used & (diagonal != 0.0), diagonal, -np.inf)
        return np.where(self.used, -1.0 / inverse, diagonal)

    def flip(self, features: np.ndarray) -> None:
        """Take one feature (S,) of each part into its model, or out of it."""
        A, each = self.matrix, np.arange(len(features))
        row, pivot = A[each, features], A[each, features, features][:, None]
        A -= row[:, :, None] * (row / pivot)[:, None, :]
        sign = np.where(self.used[each, features], -1.0, 1.0)[:, None]
        A[each, features] = A[each, :, features] = sign * row / pivot
        A[each, features, features] = -1.0 / pivot[:, 0]
        self.used[each, features] ^= True

    def use_all(self) -> bool:
        """Take all features into models without any; whether the rows tell them apart."""
        p = self.used.shape[1]
        try:
            inverse = np.linalg.inv(self.matrix[:, :p, :p])
        except np.linalg.LinAlgError:
            return False
        coef = inverse @ self.matrix[:, :p, p:]
        self.matrix[:, :p, :p] = -inverse
        self.matrix[:, :p, p:], self.matrix[:, p:, :p] = coef, np.swapaxes(coef, 1, 2)
        self.used[:] = True
        return bool((self.pivots >= LEAST_PIVOT).all())

    def narrowed(self, features: np.ndarray) -> "Swept":
        """The same models where only some features (S, m) of each part are known.

        Those that models use have to be among them. The others cannot be taken in any more, and
        sweeps need not follow what they would add.
        """
        each = np.arange(len(features))[:, None]
        targets = np.arange(self.used.shape[1], self.matrix.shape[1])
        columns = np.concatenate([features, np.tile(targets, (len(features), 1))], axis=1)
        return Swept(
            self.matrix[each[:, None], columns[:, :, None], columns[:, None, :]],
            self.scale[each, features],
            self.used[each, features],
            self.x_mean[each, features],
            self.y_mean,
        )

    def models(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (S, t, p) and intercepts (S, t)."""
        p = self.used.shape[1]
        coef = np.where(self.used[..., None], self.matrix[:, :p, p:], 0.0)
        return self._as_models(np.swapaxes(coef, 1, 2))

    def flipped(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Models with each of some features (c,) more, or less: (c, S, t, p) and (c, S, t).

        The parts have to use the same features.
        """
        p = self.used.shape[1]
        pivot = self.matrix[:, features, features]
        # Of features without a pivot the caller knows by `pivots`.
        step = self.matrix[:, features, p:] / np.where(pivot == 0.0, 1.0, pivot)[..., None]
        step = np.moveaxis(step, 0, 1)  # (c, S, t)
        columns = np.moveaxis(self.matrix[:, :p, features], 2, 0)  # (c, S, p)
        coef = np.swapaxes(self.matrix[:, :p, p:], 1, 2) - step[..., None] * columns[:, :, None, :]
        coef = np.where(self.used[:, None, :], coef, 0.0)
        each = np.arange(len(features))
        added = np.where(self.used[:, features].T[..., None], 0.0, step)
        coef[each, :, :, features] = added
        return self._as_models(coef)

    def _as_models(self, coef):
        coef = coef * self.scale[:, None, :]
        return coef, self.y_mean - np.sum(coef * self.x_mean[:, None, :], axis=-1)
