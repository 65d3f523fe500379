"""Pairs of rows: the distances and inner products that all values of hyperparameters share."""

from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace
from gpuml.data import Rows, cut, take
from gpuml.solvers.pair_kernels import pair_base
from gpuml.solvers.posteriors import as_doubles

# Rows per block of differences on a CPU.
BLOCK_ROWS = 64


class Pairs:
    """All pairs of rows X (n, p) and Y (m, p), in float64.

    Parameters
    ----------
    X : array (n, p)
    Y : array (m, p) or None
        None means X itself: pairs of a row with itself then have the noise of a `WhiteKernel`.
    known : dict, optional
        Bases (n, m) of the pairs that were computed before.
    """

    def __init__(self, X: Array, Y: Array | None = None, known: dict[str, Array] | None = None):
        self.X, self.Y = X, Y
        self.known = {} if known is None else known
        self._scaled: tuple[Any, Any] = (None, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of kernel matrices."""
        return self.X.shape[0], (self.X if self.Y is None else self.Y).shape[0]

    @cached_property
    def noise(self) -> Array | float:
        """1 for pairs of a row with itself, else 0."""
        if self.Y is not None:
            return 0.0
        xp = namespace(self.X)
        return xp.eye(self.X.shape[0], dtype=xp.float64, device=device_of(self.X))

    def base(self, kind: str) -> Array:
        """One number per pair, of which kernels are functions: see `gpuml.solvers.pair_kernels`."""
        if kind not in self.known:
            self.known[kind] = pair_base(kind, self.X, self.Y)
        return self.known[kind]

    def squares(self, scale: np.ndarray) -> Array:
        """Squared distances of rows that are divided by a scale, or by one for each feature."""
        if scale.ndim == 0:
            return self.base("apart") / float(scale) ** 2
        if self._scaled[0] != tuple(scale):
            by = as_doubles(scale, self.X)
            Y = None if self.Y is None else self.Y / by
            self._scaled = tuple(scale), pair_base("apart", self.X / by, Y)
        return self._scaled[1]

    def moments(self, weight: Array, scale: np.ndarray) -> Array:
        """Sums (p,) of squared distances along each scaled feature, with symmetric weights (n, n).

        They come from differences, since the path of an optimiser depends on the last digits of
        the gradient.
        """
        xp = namespace(self.X)
        X, n = self.X / as_doubles(scale, self.X), self.X.shape[0]
        total = xp.zeros_like(X[0, :])
        for rows in cut(slice(0, n), BLOCK_ROWS if is_numpy(X) else n):
            # Pairs with later blocks count twice. A NumPy block fits into a cache.
            of_rows, inside = weight[rows, rows.start :], rows.stop - rows.start
            sums = []
            for j in range(X.shape[1]):
                apart = X[rows, j][:, None] - X[rows.start :, j][None, :]
                apart = apart * apart * of_rows
                sums.append(2.0 * xp.sum(apart) - xp.sum(apart[:, :inside]))
            total = total + xp.stack(sums)
        return total

    def part(self, rows: Rows, columns: Rows | None = None) -> "Pairs":
        """Pairs of some rows with each other or with `columns`; reuses known distances."""
        xp = namespace(self.X)
        others = rows if columns is None else columns
        known = {
            kind: _columns(take(base, rows, xp), others, xp) for kind, base in self.known.items()
        }
        of_columns = self.X if self.Y is None else self.Y
        Y = None if columns is None else take(of_columns, columns, xp)
        return Pairs(take(self.X, rows, xp), Y, known)


def _columns(values, rows, xp):
    if isinstance(rows, slice):
        return values[:, rows]
    return xp.matrix_transpose(take(xp.matrix_transpose(values), rows, xp))


class Own:
    """Pairs of each row with itself, for the diagonal (n,) of kernel matrices."""

    def __init__(self, X: Array, noise: float = 1.0):
        self.X, self.Y, self.noise = X, None, noise
        self.shape = (X.shape[0],)

    def base(self, kind: str) -> Array:
        """As `Pairs.base`."""
        xp = namespace(self.X)
        lengths = xp.sum(self.X * self.X, axis=1)
        if kind == "cosine":
            return xp.astype(lengths > 0, xp.float64)
        return lengths if kind == "inner" else xp.zeros_like(lengths)

    def squares(self, scale: np.ndarray) -> Array:
        """As `Pairs.squares`."""
        return self.base("apart")
