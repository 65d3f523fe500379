"""Images of rows under affine maps, one map per split."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, namespace
from gpuml.designs._few_entries import both_sides, few_entries, from_right
from gpuml.designs.base import Block, Design


@dataclass(frozen=True)
class Mapped(Design):
    """What scalers and projections in front of a model make of rows, which differs between splits.

    No image of all rows is made: solvers read the design that is `stored`, with vectors that were
    taken there, and take sums over its rows back. Images under the only map of a design are made
    block by block.

    Attributes
    ----------
    design : Design
        The rows (n, p) as they are.
    maps : array (S, p' + 1, p + 1), float64
        Vectors [w, b] of models of images, times these, are vectors of models of the rows.
    """

    design: Design
    maps: Array

    @property
    def stored(self) -> Design:
        """The design whose rows are read."""
        return self.design

    @property
    def n_maps(self) -> int:
        """S."""
        return self.maps.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.design.shape[0], self.maps.shape[1] - 1

    @property
    def place(self) -> Place:
        return self.design.place

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows."""
        return self.design.dtype

    def block(self, rows: slice) -> "MappedBlock":
        """Images of some consecutive rows under the only map."""
        return MappedBlock(self.design.block(rows), self.maps[0, :-1, :-1], self.maps[0, :-1, -1])

    def sample(self, rows: slice) -> "Mapped":
        """Some of the rows, in float64."""
        return replace(self, design=self.design.sample(rows))

    def spread(self) -> tuple[Array, Array]:
        """Means and variances (S, p') of the columns."""
        xp = self.place.xp
        mean = self.design.column_sums() / self.shape[0]
        products = self.design.products_about(mean) / self.shape[0]
        matrix, offset = self.maps[:, :-1, :-1], self.maps[:, :-1, -1]
        few = few_entries(matrix)
        if few is None:
            return matrix @ mean + offset, xp.sum((matrix @ products) * matrix, axis=-1)
        variance = [own.multiply(own @ products).sum(axis=1) for own in few]
        return matrix @ mean + offset, np.stack(variance)

    def maps_about(self, shift: Array) -> Array:
        """The maps of rows less a shift (p,) to the same images."""
        offset = self.maps[:, :, -1:] + self.maps[:, :, :-1] @ shift[:, None]
        return self.place.xp.concat([self.maps[:, :, :-1], offset], axis=-1)

    @cached_property
    def _few(self):
        """The maps as sparse matrices, if they have few entries."""
        return few_entries(self.maps)

    def to_stored(self, W: Array) -> Array:
        """Vectors (C, S, k, p' + 1) of models as vectors (C, S, k, p + 1) for the original rows."""
        return W @ self.maps if self._few is None else from_right(W, self._few)

    def from_stored(self, G: Array) -> Array:
        """Gradients (C, S, k, p + 1) for the original rows as gradients of the models."""
        if self._few is not None:
            return from_right(G, self._few, transpose=True)
        return G @ self.place.xp.matrix_transpose(self.maps)

    def hessians_from_stored(self, H: Array) -> Array:
        """As `from_stored`, for Hessians (C, S or 1, k q, k q)."""
        xp, maps = self.place.xp, self.maps
        q_out, q_in = maps.shape[1:]
        k = H.shape[-1] // q_in
        if self._few is not None:
            return both_sides(self._few, H, k)
        if k == 1:
            return maps @ H @ xp.matrix_transpose(maps)
        # The same map for each block of two vectors.
        grid = H.shape[:-2]
        blocks = xp.permute_dims(xp.reshape(H, (*grid, k, q_in, k, q_in)), (0, 1, 2, 4, 3, 5))
        maps = maps[:, None, None, :, :]
        blocks = xp.permute_dims(maps @ blocks @ xp.matrix_transpose(maps), (0, 1, 2, 4, 3, 5))
        return xp.reshape(blocks, (*blocks.shape[:2], k * q_out, k * q_out))

    def by_split(self, n_matrices: int) -> "tuple[Mapped, ...]":
        """Designs with one map each, if the images have few enough columns to save work."""
        _, q_image, q = self.maps.shape
        if n_matrices * q_image**2 >= min(q**2, self.design.gram_cost + q):
            return ()
        return tuple(replace(self, maps=self.maps[s : s + 1, ...]) for s in range(self.n_maps))


@dataclass(frozen=True)
class MappedBlock:
    """Images ``X A' + a`` of some rows."""

    block: Block
    matrix: Array
    offset: Array

    @property
    def rows(self) -> slice:
        return self.block.rows

    def margins(self, coef: Array) -> Array:
        """``coef X'``."""
        matrix, offset = self._as(coef)
        return self.block.margins(coef @ matrix) + (coef @ offset)[:, None]

    def products(self, values: Array) -> Array:
        """``values X``."""
        matrix, offset = self._as(values)
        total = namespace(values).sum(values, axis=1, keepdims=True)
        return self.block.products(values) @ matrix.T + total * offset

    def dense(self) -> Array:
        """The images in float64."""
        return self.block.dense() @ self.matrix.T + self.offset

    def in_float64(self) -> "MappedBlock":
        """The same rows, for float64 products."""
        return replace(self, block=self.block.in_float64())

    def _as(self, like):
        xp = namespace(like)
        return (xp.astype(a, like.dtype, copy=False) for a in (self.matrix, self.offset))
