"""The statistics of linear discriminants: class means, and scatter within classes and in total."""

from dataclasses import dataclass

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import EPS
from gpuml.solvers.covariances import ledoit_wolf_share, shrunk
from gpuml.solvers.described import Described, Training
from gpuml.solvers.moments import normal_equations


@dataclass(frozen=True)
class Scatter:
    """Of S training parts, in float64; matrices are divided by the number of rows.

    Attributes
    ----------
    counts : array (S, k)
        Rows of each class.
    means : array (S, k, p)
    mean : array (S, p)
        Of all rows.
    within, total : arrays (S, p, p)
    """

    counts: Array
    means: Array
    mean: Array
    within: Array
    total: Array

    @classmethod
    def of(cls, described: Described, parts: Training) -> "Scatter":
        """From moments of rows whose targets are the indicators of their classes."""
        moments = described.combined(parts)
        normal = normal_equations(moments, True)
        xp = namespace(normal.xx)
        n_rows = moments.gram[:, -1, -1]
        counts = normal.y_mean * n_rows[:, None]
        away = xp.matrix_transpose(normal.xy) / counts[:, :, None]  # (S, k, p)
        between = xp.matrix_transpose(away) @ (away * counts[:, :, None])
        within = normal.xx - between
        # Of a feature that is constant in every class rounding is left.
        squares, own = xp.linalg.diagonal(normal.xx), xp.linalg.diagonal(within)
        nothing = own <= normal.noise + 8 * EPS * squares
        some = xp.astype(~nothing, within.dtype)
        within = within * some[:, :, None] * some[:, None, :]
        n = n_rows[:, None, None]
        return cls(
            counts, normal.x_mean[:, None, :] + away, normal.x_mean, within / n, normal.xx / n
        )

    def part(self, s: int, n_features: int) -> "Scatter":
        """That of one training part, without the axis, of the features that it has."""
        fields = (self.counts, self.means, self.mean, self.within, self.total)
        counts, means, mean, *matrices = (a[s, ...] for a in fields)
        p = n_features
        return Scatter(counts, means[:, :p], mean[:p], *(a[:p, :p] for a in matrices))


def covariance(X: Array) -> Array:
    """The covariance (p, p) of rows (n, p)."""
    X = X - namespace(X).mean(X, axis=0)
    return X.T @ X / X.shape[0]


def ledoit_wolf(X: Array) -> Array:
    """The same, with the shrinkage estimated from fourth moments.

    As scikit-learn has it: of features divided by their standard deviations, which it then gets
    back.
    """
    xp = namespace(X)
    n_rows = X.shape[0]
    X = X - xp.mean(X, axis=0)
    scale = xp.std(X, axis=0)
    scale = xp.where(scale == 0, 1.0, scale)
    X = X / scale
    found = X.T @ X / n_rows
    fourth = xp.mean(xp.sum(X**2, axis=1) ** 2)
    found = shrunk(found, ledoit_wolf_share(n_rows, found, fourth))
    return found * scale[:, None] * scale[None, :]
