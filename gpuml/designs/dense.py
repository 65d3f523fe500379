"""Rows in an array."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpuml._arrays import Array, Place, itemsize, move, namespace
from gpuml._arrays.ops import column_sums, zeros
from gpuml.designs.base import Design


@dataclass(frozen=True)
class Dense(Design):
    """An array (n, p), which may be elsewhere: blocks of it move to `place` one by one.

    Attributes
    ----------
    X : array (n, p)
    at : Place
        Where to compute.
    known : dict
        What solvers have found out about these rows.
    """

    X: Array
    at: Place
    known: dict = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def place(self) -> Place:
        return self.at

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return itemsize(self.X.dtype)

    @cached_property
    def dtype(self) -> Any:
        """Float dtype of the rows, in the library of `place`."""
        return getattr(self.at.xp, str(self.X.dtype).rpartition(".")[2])

    def block(self, rows: slice) -> "DenseBlock":
        """Some consecutive rows."""
        return DenseBlock(rows, move(self.X[rows, ...], self.at))

    def sample(self, rows: slice) -> "Dense":
        """Some of the rows, in float64."""
        xp = self.at.xp
        X = xp.astype(move(self.X[rows, ...], self.at), xp.float64, copy=False)
        return replace(self, X=X, known={})

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        return column_sums(move(self.X, self.at), self.at.xp)

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        xp = self.at.xp
        total = zeros(self.shape[1:], like=mean, xp=xp)
        for block in self.blocks(self.shape[1]):  # copies of all rows would leave the caches
            apart = block.dense() - mean
            total = total + column_sums(apart * apart, xp)
        return total

    def less(self, shift: Array) -> "tuple[Dense, Array]":
        """The rows in float64 less a shift (p,), and the shift."""
        X = self.block(slice(0, self.shape[0])).dense()
        return Dense(X - shift, self.at, block_bytes=self.block_bytes), shift


@dataclass(frozen=True)
class DenseBlock:
    """Some rows of an array."""

    rows: slice
    X: Array

    def margins(self, coef: Array) -> Array:
        """``coef X'``; NumPy's product reads the transposed X without a copy."""
        return coef @ self.X.T

    def products(self, values: Array) -> Array:
        """``values X``."""
        return values @ self.X

    def dense(self) -> Array:
        """The rows in float64."""
        xp = namespace(self.X)
        return xp.astype(self.X, xp.float64, copy=False)

    def in_float64(self) -> "DenseBlock":
        """The same rows, for float64 products."""
        return replace(self, X=self.dense())
