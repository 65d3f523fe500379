"""Rows at several holders, shard by shard."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from gpuml._arrays import Array, Place, move
from gpuml.data import Absent, Holders, NeedsAllRows
from gpuml.designs.base import Design


@dataclass(frozen=True)
class Divided(Design):
    """The rows of many shards, one after the other, of which only sums come here.

    They are combined in an order that depends on the number of shards alone.

    Attributes
    ----------
    shards : Holders
        Of records that have a `design` each.
    X : Absent
        Shape and dtype of all rows.
    at : Place
        Where sums come to.
    """

    shards: Holders
    X: Absent
    at: Place

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def place(self) -> Place:
        return self.at

    @property
    def itemsize(self) -> int:
        """Bytes of a number of X."""
        return self.X.dtype.itemsize

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows, in the library of `place`."""
        return getattr(self.at.xp, str(self.X.dtype))

    def block(self, rows: slice) -> NoReturn:
        """Not available here."""
        raise NeedsAllRows("Rows that are divided are not read block by block.")

    sample = block

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        return self.shards.total(_of_shard, Design.column_sums)

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        return self.shards.total(_of_shard, Design.squares_about, mean)

    def products_about(self, mean: Array) -> Array:
        """Sums (p, p) of products of the columns about their means, float64."""
        return self.shards.total(_of_shard, Design.products_about, mean)


def _of_shard(shard: Any, method: Callable[..., Array], *args: Array) -> Array:
    design = shard.design.stored
    return getattr(design, method.__name__)(*(move(a, design.place) for a in args))
