"""Smallest and largest values of features in training parts, from those of atoms of rows."""

from typing import NamedTuple

import numpy as np

from gpuml._arrays import Array, Place, device_of, move, namespace
from gpuml.data import Batch, Rows, atoms_here
from gpuml.solvers._blocks import Blocks, sum_blocks


class Extrema(NamedTuple):
    """Smallest and largest values (..., p) of features, float64 at the place of work."""

    low: Array
    high: Array

    def to(self, place: Place) -> "Extrema":
        """The same extrema at a place."""
        return Extrema(move(self.low, place), move(self.high, place))

    def combine(self, counts: np.ndarray) -> "Extrema":
        """Of parts in which atoms occur `counts` (S, A) times; these are of the atoms (A, p)."""
        xp = namespace(self.low)
        there = xp.asarray(counts > 0, device=device_of(self.low))[:, :, None]
        infinite = xp.full_like(self.low, float("inf"))
        low = xp.min(xp.where(there, self.low, infinite), axis=1)
        return Extrema(low, xp.max(xp.where(there, self.high, -infinite), axis=1))

    def scaled(self, factor: Array, offset: Array) -> "Extrema":
        """Of ``factor x + offset``, both (..., p)."""
        xp = namespace(self.low)
        one, other = self.low * factor + offset, self.high * factor + offset
        return Extrema(xp.minimum(one, other), xp.maximum(one, other))


def atom_extrema(
    batch: Batch,
    atoms: tuple[Rows, ...],
    *,
    block_bytes: int | None = None,
) -> Extrema:
    """Extrema of each atom of rows, in one pass; arguments as for `moments.atom_moments`.

    Rows of weight 0 count too, as for scalers that take no weights.
    """
    return batch.total(_extrema, atoms, block_bytes, combine=widest)


def widest(one: Extrema, other: Extrema) -> Extrema:
    """Extrema of the rows of both."""
    xp = namespace(one.low)
    return Extrema(xp.minimum(one.low, other.low), xp.maximum(one.high, other.high))


def _extrema(folds, atoms, block_bytes):
    batch, atoms = folds.batch, atoms_here(folds, atoms)
    xp = batch.work.xp
    blocks = Blocks(batch, n_columns=batch.n_features, block_bytes=block_bytes)

    def start():
        infinite = xp.full(
            (batch.n_features,), float("inf"), dtype=xp.float64, device=batch.work.device
        )
        return Extrema(infinite, -infinite)

    def add(total, atom, X, y, weight):
        block = Extrema(xp.min(X, axis=0), xp.max(X, axis=0))
        return widest(total, Extrema(*(xp.astype(each, xp.float64) for each in block)))

    found = sum_blocks(blocks, atoms, start, add, widest)
    return Extrema(xp.stack([each.low for each in found]), xp.stack([each.high for each in found]))
