"""Designs side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, device_of, is_numpy, namespace
from gpuml._arrays.ops import side_by_side
from gpuml.designs._coded_gpu import Slots
from gpuml.designs.base import Block, Design
from gpuml.designs.coded import Coded, CodedBlock
from gpuml.designs.dense import Dense, DenseBlock


@dataclass(frozen=True)
class Columns(Design):
    """The columns of several designs of the same rows, one after the other.

    Attributes
    ----------
    parts : tuple of Design
        At one place, of one precision.
    """

    parts: tuple[Design, ...]

    def __post_init__(self):
        facts = [(part.shape[0], part.place, 8 * part.itemsize) for part in self.parts]
        if any(fact != facts[0] for fact in facts):
            raise ValueError(
                f"Designs side by side must have rows, place and bits alike, got {facts}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def place(self) -> Place:
        return self.parts[0].place

    @property
    def dtype(self) -> Any:
        """Float dtype of the rows."""
        return self.parts[0].dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return sum(part.row_bytes for part in self.parts)

    @property
    def n_entries(self) -> int:
        """How many entries of X a product with all rows uses."""
        return sum(part.n_entries for part in self.parts)

    @property
    def entry_cost(self) -> float:
        """The mean over the entries."""
        return sum(p.n_entries * p.entry_cost for p in self.parts) / max(1, self.n_entries)

    @property
    def gram_cost(self) -> float:
        """The sum over all pairs of parts."""
        own = sum(part.gram_cost for part in self.parts)
        pairs = combinations(self.parts, 2)
        return own + sum(min(a.cross_cost(b), b.cross_cost(a)) for a, b in pairs)

    @property
    def columns(self) -> list[slice]:
        """The columns of each part."""
        ends = accumulate((part.shape[1] for part in self.parts), initial=0)
        return [slice(a, b) for a, b in pairwise(ends)]

    def block(self, rows: slice) -> "ColumnsBlock":
        """Some consecutive rows."""
        leaves, columns = zip(*self._leaves(), strict=True)
        return ColumnsBlock(rows, [leaf.block(rows) for leaf in leaves], columns, self._slots)

    def _leaves(self) -> Iterator[tuple[Design, slice]]:
        """The innermost parts, with their columns."""
        for part, own in zip(self.parts, self.columns, strict=True):
            if not isinstance(part, Columns):
                yield part, own
                continue
            for leaf, its in part._leaves():
                yield leaf, slice(own.start + its.start, own.start + its.stop)

    @cached_property
    def _slots(self) -> Slots | None:
        """All columns of codes for CuPy kernels; None if there are none, or off CuPy."""
        coded = [(leaf, own) for leaf, own in self._leaves() if isinstance(leaf, Coded)]
        if self.place.kind != "cupy" or not coded:
            return None
        columns: list[list[tuple[Array, int]]] = []
        firsts: list[int] = []
        for leaf, own in coded:
            columns += [[each] for each in zip(leaf.codes, leaf.n_levels, strict=True)]
            firsts += accumulate(leaf.n_levels[:-1], initial=own.start)
        return Slots.of(*columns, firsts=firsts)

    def sample(self, rows: slice) -> "Columns":
        """Some of the rows, in float64."""
        return replace(self, parts=tuple(part.sample(rows) for part in self.parts))

    def column_sums(self) -> Array:
        """Sums (p,) of the columns, float64."""
        return self.place.xp.concat([part.column_sums() for part in self.parts])

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        pairs = zip(self.parts, self.columns, strict=True)
        return self.place.xp.concat([part.squares_about(mean[own]) for part, own in pairs])

    @property
    def usual_block_bytes(self) -> int:
        """The largest value of any part."""
        return max(part.usual_block_bytes for part in self.parts)

    @property
    def fewest_block_rows(self) -> int:
        """The largest value of any part."""
        return max(part.fewest_block_rows for part in self.parts)

    def n_runs(self, most: int) -> int:
        """The smallest value of any part."""
        return min(part.n_runs(most) for part in self.parts)

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p): each part by its own method, pairs of parts by products."""
        xp = self.place.xp
        parts, order = self._joined()
        numbers = range(len(parts))
        grid = [[_pair(parts, i, j, weights) for j in numbers] for i in numbers]
        for i in numbers:
            for j in range(i):
                grid[i][j] = xp.matrix_transpose(grid[j][i])
        gram = xp.concat([xp.concat(row, axis=2) for row in grid], axis=1)
        if order is not None:
            order = xp.asarray(order, device=device_of(gram))
            gram = xp.take(xp.take(gram, order, axis=1), order, axis=2)
        return gram

    def less(self, shift: Array) -> "tuple[Columns, Array]":
        """The rows in float64 less a shift (p,), and what was subtracted: 0 except for numbers."""
        pairs = zip(self.parts, self.columns, strict=True)
        parts, shifts = zip(*(part.less(shift[own]) for part, own in pairs), strict=True)
        return replace(self, parts=parts), self.place.xp.concat(shifts)

    def products_about(self, mean: Array) -> Array:
        """Sums (p, p) of products of the columns about their means, float64."""
        if not self.has_fast_gram:
            return super().products_about(mean)
        xp = self.place.xp
        # For large numbers, a difference of sums has no accurate digits.
        about, shift = self.sample(slice(0, self.shape[0])).less(mean)
        ones = xp.ones((1, self.shape[0]), dtype=xp.float64, device=device_of(mean))
        mean, sums = mean - shift, about.column_sums()
        cross = sums[:, None] * mean[None, :]
        return about.gram(ones)[0, ...] - cross - cross.T + self.shape[0] * mean[:, None] * mean

    def _joined(self):
        """Parts with at most one dense part, and the position of each column among them."""
        flat: list[Design] = []
        for part in self.parts:
            flat += part.parts if isinstance(part, Columns) else [part]
        dense = [i for i, part in enumerate(flat) if isinstance(part, Dense)]
        if len(dense) < 2:
            return flat, None
        everything = slice(0, self.shape[0])
        found = [flat[i].block(everything).dense() for i in dense]
        one = Dense(side_by_side(found, self.place), self.place)
        others = [i for i in range(len(flat)) if i not in dense]
        columns = Columns(tuple(flat)).columns
        given = np.concatenate([np.arange(self.shape[1])[columns[i]] for i in [*dense, *others]])
        return [one, *(flat[i] for i in others)], np.argsort(given)


def _pair(parts, i, j, weights):
    """Products (M, p_i, p_j) of two parts; None below the diagonal."""
    if j < i:
        return None
    if i == j:
        return parts[i].gram(weights)
    # The part with fewer entries computes the product.
    first, other = sorted((i, j), key=lambda part: parts[part].n_entries)
    found = parts[first].cross(parts[other], weights)
    return found if first == i else namespace(found).matrix_transpose(found)


@dataclass(frozen=True)
class ColumnsBlock:
    """Some rows of designs side by side."""

    rows: slice
    parts: Sequence[Block]
    columns: Sequence[slice]
    slots: Slots | None = None

    def _each(self) -> Iterator[tuple[Block, slice]]:
        return zip(self.parts, self.columns, strict=True)

    def _without_codes(self):
        return [(block, own) for block, own in self._each() if not isinstance(block, CodedBlock)]

    def margins(self, coef: Array) -> Array:
        """``coef X'``: the sum over parts."""
        if self.slots is not None:
            return self._with_codes(self.slots, coef)
        # Margins of codes and of sparse rows are in row order, so compute those of dense rows
        # likewise.
        found = (
            (block.X @ coef[:, own].T).T
            if isinstance(block, DenseBlock) and is_numpy(coef)
            else block.margins(coef[:, own])
            for block, own in self._each()
        )
        first, *others = found
        for other in others:
            first = first + other
        return first

    def _with_codes(self, slots, coef):
        """With CuPy: look up all columns of codes at once, and add them to the other margins."""
        total = None
        for block, own in self._without_codes():
            found = block.margins(coef[:, own])
            total = found if total is None else total + found
        return slots.gathered(coef, self.rows.start, self.rows.stop - self.rows.start, total)

    def products(self, values: Array) -> Array:
        """``values X``."""
        if self.slots is not None:
            xp, p = namespace(values), self.columns[-1].stop
            sums = xp.zeros((p, values.shape[0]), dtype=xp.float64, device=device_of(values))
            for block, own in self._without_codes():
                sums[own, :] = block.products(values).T
            self.slots.add_sums(sums, values, self.rows.start)
            return sums.T
        return namespace(values).concat([part.products(values) for part in self.parts], axis=1)

    def dense(self) -> Array:
        """The rows in float64."""
        found = [part.dense() for part in self.parts]
        return namespace(found[0]).concat(found, axis=1)

    def in_float64(self) -> "ColumnsBlock":
        """The same rows, for float64 products."""
        return replace(self, parts=[part.in_float64() for part in self.parts])
