"""Components of some parts of rows as `PCA` and `TruncatedSVD` have them: attributes and maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import constant
from gpuml.decomposition._projection import Kind, at_home, or_nan, whitening_scale
from gpuml.solvers.affine import Affine, FittedStep
from gpuml.solvers.components import Components


@dataclass(frozen=True)
class Fitted:
    """The first `counts[s]` components of S parts.

    Attributes
    ----------
    found : Components
        At least as many as any part keeps.
    counts : tuple of S ints
    n_rows : tuple of S ints
    batch : Batch, or what has its X and home
        Whose library and dtype results are to be in.
    """

    found: Components
    counts: Sequence[int]
    n_rows: Sequence[int]
    batch: Kind

    @property
    def step(self) -> FittedStep:
        """The step of a search; where parts keep different numbers of components, with widths."""
        widths = tuple(self.counts) if min(self.counts) < max(self.counts) else None
        matrix = self._matrix(max(self.counts))
        if widths is not None:
            matrix = _without_columns(matrix, widths)
        offset = -(self.found.mean[:, None, :] @ matrix)[:, 0, :]
        return FittedStep(Affine(matrix, offset), self.pick, widths)

    def _matrix(self, width):
        """Components (S, p, width) in columns."""
        return namespace(self.found.vectors).matrix_transpose(self.found.vectors[:, :width, :])

    def pick(self, s: int) -> dict[str, Any]:
        """Fitted attributes of part s."""
        raise NotImplementedError

    def _at_home(self, s, **arrays):
        arrays["components_"] = self.found.vectors[s, : self.counts[s], : self.found.width(s)]
        arrays["singular_values_"] = self.found.singular[s, : self.counts[s]]
        return {name: at_home(values, self.batch) for name, values in arrays.items()}


@dataclass(frozen=True)
class Principal(Fitted):
    """Components about the mean, by the solvers of each part; their number as what type."""

    whiten: bool
    solvers: Sequence[str]
    type_of_count: Any

    def _matrix(self, width):
        matrix = super()._matrix(width)
        if not self.whiten:
            return matrix
        degrees = constant(np.asarray(self.n_rows) - 1, like=matrix, xp=namespace(matrix))
        variance = self.found.singular[:, :width] ** 2 / degrees[:, None]
        return matrix / whitening_scale(variance, self.batch.X.dtype)[:, None, :]

    def pick(self, s: int) -> dict[str, Any]:
        """Fitted attributes of part s."""
        count, n_rows, found = self.counts[s], self.n_rows[s], self.found
        squares, total = found.singular[s, :] ** 2, found.total[s]
        arrays = self._at_home(
            s,
            explained_variance_=squares[:count] / (n_rows - 1),
            explained_variance_ratio_=squares[:count] / or_nan(total),
            mean_=found.mean[s, : found.width(s)],
        )
        return {
            **arrays,
            "noise_variance_": self._noise(s, squares, total),
            "n_components_": self.type_of_count(count),
            "n_samples_": n_rows,
            "_fit_svd_solver": self.solvers[s],
        }

    def _noise(self, s, squares, total):
        """Mean variance of the directions that are left out."""
        xp, count, n_rows = namespace(squares), self.counts[s], self.n_rows[s]
        most = min(n_rows, self.found.width(s))
        if count >= most:
            return 0.0
        if squares.shape[0] >= most:
            left = xp.sum(squares[count:most])
        else:
            left = total - xp.sum(squares[:count])
            left = xp.where(left > 0, left, xp.zeros_like(left))
        return at_home(left / ((n_rows - 1) * (most - count)), self.batch)


@dataclass(frozen=True)
class Truncated(Fitted):
    """Components about the origin, with variances of images and features; see `Decomposed`."""

    variance: Array
    spread: Array
    fill: Array | None = None

    def pick(self, s: int) -> dict[str, Any]:
        """Fitted attributes of part s."""
        variance = self.variance[s, : self.counts[s]]
        share = variance / or_nan(self.spread[s])
        fill = {} if self.fill is None else {"_fill": self.fill}
        return self._at_home(
            s, explained_variance_=variance, explained_variance_ratio_=share, **fill
        )


def _without_columns(matrix, widths):
    """Matrices (S, p, k) with zeros beyond the first `widths[s]` columns."""
    kept = np.arange(matrix.shape[-1]) < np.asarray(widths)[:, None]
    return matrix * constant(kept, like=matrix, xp=namespace(matrix))[:, None, :]
