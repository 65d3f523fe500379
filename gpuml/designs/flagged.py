"""Numbers with flags beside them, which take a byte each and become numbers block by block."""

from dataclasses import dataclass, replace

from gpuml._arrays import Array, move
from gpuml._arrays.ops import column_sums, side_by_side
from gpuml.designs.base import Design
from gpuml.designs.dense import Dense, DenseBlock


@dataclass(frozen=True)
class Flagged(Dense):
    """An array (n, p) of numbers, and flags (n, h) as further columns.

    Attributes
    ----------
    flags : bool array (n, h)
    """

    flags: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1] + self.flags.shape[1]

    def block(self, rows: slice) -> DenseBlock:
        """Some consecutive rows."""
        X, flags = (move(a[rows, ...], self.at) for a in (self.X, self.flags))
        xp = self.at.xp
        return DenseBlock(rows, side_by_side([X, xp.astype(flags, X.dtype)], self.at))

    def sample(self, rows: slice) -> "Flagged":
        """Some of the rows, in float64."""
        X, flags = (move(a[rows, ...], self.at) for a in (self.X, self.flags))
        X = self.at.xp.astype(X, self.at.xp.float64, copy=False)
        return replace(self, X=X, flags=flags, known={})

    def column_sums(self) -> Array:
        """Sums (p + h,) of the columns, float64."""
        xp = self.at.xp
        flags = xp.astype(
            move(self.flags, self.at), xp.uint8
        )  # the array standard has no sum of bools
        flags = xp.sum(flags, axis=0, dtype=xp.int64)
        X = column_sums(move(self.X, self.at), xp)
        return xp.concat([X, xp.astype(flags, X.dtype)])

    def squares_about(self, mean: Array) -> Array:
        """Sums (p + h,) of squares of the columns about their means, float64."""
        return Design.squares_about(self, mean)
