"""Indicators of categories, of which only the codes are held."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, device_of, is_numpy, namespace, place_of
from gpuml.designs.base import Design


@dataclass(frozen=True)
class Coded(Design):
    """The one-hot columns (n, p) of codes (n,), which are never made.

    A row of code c is 1 in column c and 0 elsewhere; a row of code -1 is 0 everywhere. A product
    with coefficients looks them up, and one with numbers per row adds them up by code.

    Attributes
    ----------
    codes : int array (n,)
    n_levels : int
        p, the number of columns.
    floats : dtype
        Float dtype of the indicators, in the library of the codes.
    """

    codes: Array
    n_levels: int
    floats: Any

    @property
    def dtype(self) -> Any:
        """Float dtype of the indicators."""
        return self.floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.n_levels

    @property
    def place(self) -> Place:
        return place_of(self.codes)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return 8

    def block(self, rows: slice) -> "CodedBlock":
        """Some neighbouring rows."""
        return CodedBlock(rows, self.codes[rows], self.n_levels)

    def sample(self, rows: slice) -> "Coded":
        """Some of the rows, in float64."""
        return replace(self, codes=self.codes[rows], floats=self.place.xp.float64)

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p) for each w of `weights` (M, n): sums of weights by code."""
        xp = self.place.xp
        sums = self.rmatvec(xp.astype(xp.matrix_transpose(weights), xp.float64))
        return sums[:, :, None] * xp.eye(self.n_levels, dtype=xp.float64, device=device_of(sums))

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        counts = self.column_sums()
        return counts * (1 - mean) ** 2 + (self.shape[0] - counts) * mean**2


@dataclass(frozen=True)
class CodedBlock:
    """Some rows of codes."""

    rows: slice
    codes: Array
    n_levels: int

    def margins(self, coef: Array) -> Array:
        """``coef X'``: coefficients of the codes, 0 for those that have none."""
        xp = namespace(coef)
        nothing = xp.zeros_like(coef[:, :1])
        # The last column is that of -1.
        return xp.take(xp.concat([coef, nothing], axis=1), self.codes % (self.n_levels + 1), axis=1)

    def products(self, values: Array) -> Array:
        """``values X``: sums of numbers by code."""
        slots = self.codes % (self.n_levels + 1)
        if is_numpy(values):
            sums = [np.bincount(slots, row, self.n_levels + 1) for row in values]
            return np.stack(sums)[:, :-1].astype(values.dtype, copy=False)
        if place_of(values).kind == "cupy":
            import cupy

            shape = (self.n_levels + 1, values.shape[0])
            total = namespace(values).zeros(shape, dtype=values.dtype)
            cupy.add.at(total, slots, values.T)
            return total[:-1, :].T
        return values @ namespace(values).astype(self.dense(), values.dtype)

    def dense(self) -> Array:
        """The indicators in float64."""
        xp = namespace(self.codes)
        levels = xp.arange(self.n_levels, dtype=self.codes.dtype, device=device_of(self.codes))
        return xp.astype(self.codes[:, None] == levels[None, :], xp.float64)

    def in_float64(self) -> "CodedBlock":
        """The same rows: codes have no precision."""
        return self
