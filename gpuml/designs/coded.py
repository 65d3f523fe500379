"""One-hot columns of categories, stored as codes."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import Array, Place, device_of, is_numpy, namespace, place_of
from gpuml._arrays.ops import zeros
from gpuml.data import cut
from gpuml.designs._coded_gpu import Slots
from gpuml.designs.base import SMALLEST_BLOCK_ROWS, Design
from gpuml.designs.dense import Dense

# Measured on two cores of a Xeon: the time to look up a coefficient and add it, relative to two
# multiplications with a dense entry; and to add a number, relative to one.
ENTRY_COST = 3.0
SUM_COST = 8.0
CPU_BLOCK_BYTES = 2**22
# How many rows are processed at once for pairs of codes.
PAIR_ROWS = 2**16


@dataclass(frozen=True)
class Coded(Design):
    """The one-hot columns (n, p) of codes, which are never made.

    A row of code c is 1 in column c of the levels of that code and 0 in the others; a row of code
    -1 is 0 in all. A product with coefficients looks them up, and one with numbers per row adds
    them up by code.

    Attributes
    ----------
    codes : tuple of d int arrays (n,)
        Unsigned ones have no -1.
    n_levels : tuple of d ints
        How many columns stand for each, side by side.
    floats : dtype
        Float dtype of the indicators, in the library of the codes.
    """

    codes: tuple[Array, ...]
    n_levels: tuple[int, ...]
    floats: Any

    @property
    def dtype(self) -> Any:
        """Float dtype of the indicators."""
        return self.floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes[0].shape[0], sum(self.n_levels)

    @property
    def place(self) -> Place:
        return place_of(self.codes[0])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in a block."""
        return 12 * len(self.codes)

    @property
    def n_entries(self) -> int:
        """One per code."""
        return self.shape[0] * len(self.codes)

    @property
    def entry_cost(self) -> float:
        """The time of a product with an entry, relative to an entry of dense rows."""
        return ENTRY_COST

    @property
    def gram_cost(self) -> float:
        """The time of `gram` per row: weights are summed by one code, and by pairs of codes."""
        return SUM_COST * len(self.codes) * (len(self.codes) + 1) / 2

    def cross_cost(self, other: Design) -> float:
        """As `gram_cost`, for `cross`."""
        width = len(other.codes) if isinstance(other, Coded) else other.shape[1]
        return SUM_COST * len(self.codes) * width

    @property
    def usual_block_bytes(self) -> int:
        """As for other rows; more on a CPU, so that a sparse matrix of a block pays off."""
        return max(CPU_BLOCK_BYTES, super().usual_block_bytes)

    @property
    def fewest_block_rows(self) -> int:
        """The fewest rows of a block: the result of each block has as many entries as columns."""
        return max(SMALLEST_BLOCK_ROWS, self.shape[1])

    def n_runs(self, most: int) -> int:
        """The number of runs into which the rows may be divided."""
        return max(1, min(most, self.shape[0] // self.fewest_block_rows))

    def block(self, rows: slice) -> "CodedBlock":
        """Some consecutive rows."""
        return CodedBlock(rows, self, self.floats)

    def sample(self, rows: slice) -> "Coded":
        """Some of the rows, in float64."""
        codes = tuple(codes[rows] for codes in self.codes)
        return replace(self, codes=codes, floats=self.place.xp.float64)

    @cached_property
    def slots(self) -> Slots:
        """The description of the columns for CuPy kernels."""
        return Slots.of(*([own] for own in zip(self.codes, self.n_levels, strict=True)))

    @property
    def _each(self):
        return [
            Coded((codes,), (n_levels,), self.floats)
            for codes, n_levels in zip(self.codes, self.n_levels, strict=True)
        ]

    def gram(self, weights: Array) -> Array:
        """``X' diag(w) X`` (M, p, p) for each w of `weights` (M, n): sums of weights by code."""
        xp, each = self.place.xp, self._each
        grid: list[list[Any]] = [[None] * len(each) for _ in each]
        pairs = [(one, other) for i, one in enumerate(each) for other in each[:i]]
        by_pairs, by_one = iter(_by_pairs(pairs, weights)), self.sums(weights)
        ends = accumulate(self.n_levels)
        for i, (one, end) in enumerate(zip(each, ends, strict=True)):
            for j in range(i):
                grid[i][j] = next(by_pairs)
                grid[j][i] = xp.matrix_transpose(grid[i][j])
            eye = xp.eye(one.shape[1], dtype=xp.float64, device=device_of(by_one))
            grid[i][i] = by_one[:, end - one.shape[1] : end, None] * eye
        if len(each) == 1:
            return grid[0][0]
        return xp.concat([xp.concat(row, axis=2) for row in grid], axis=1)

    def sums(self, weights: Array) -> Array:
        """Sums (M, p) of weights (M, n) by code."""
        xp = self.place.xp
        weights = xp.astype(weights, xp.float64, copy=False)
        if self.place.kind != "numpy":
            return self.rmatvec(xp.matrix_transpose(weights))
        found = []
        for codes, p in zip(self.codes, self.n_levels, strict=True):
            slots = _slots(codes, p).astype(np.intp)
            found.append(np.stack([np.bincount(slots, w, p + 1)[:p] for w in weights]))
        return np.concatenate(found, axis=1)

    def cross(self, other: Design, weights: Array) -> Array:
        """``X' diag(w) Y`` (M, p, k): sums of weighted rows Y by code, or weights by code pairs."""
        xp = self.place.xp
        if isinstance(other, Dense) and self.place.kind == "numpy":
            return self._of_rows(other, weights)
        if not isinstance(other, Coded) or self.place.kind not in ("numpy", "cupy"):
            return super().cross(other, weights)
        pairs = [(one, two) for one in self._each for two in other._each]
        found, n = _by_pairs(pairs, weights), len(other.codes)
        rows = [xp.concat(found[i : i + n], axis=2) for i in range(0, len(found), n)]
        return xp.concat(rows, axis=1)

    def _of_rows(self, other, weights):
        n_codes = len(self.codes)
        total = np.zeros((weights.shape[0], self.shape[1] + 1, other.shape[1]))
        for block in other.blocks(2 * n_codes):
            rows = np.ascontiguousarray(block.dense())
            by_code = self.block(block.rows).in_float64().indicators.T
            for m, w in enumerate(weights[:, block.rows]):
                by_code.data = np.repeat(w.astype(np.float64, copy=False), n_codes)
                total[m] += by_code @ rows
        return total[:, :-1, :]

    def squares_about(self, mean: Array) -> Array:
        """Sums (p,) of squares of the columns about their means, float64."""
        counts = self.column_sums()
        return counts * (1 - mean) ** 2 + (self.shape[0] - counts) * mean**2


def _by_pairs(pairs, weights):
    """Sums (M, p, k) of weights by the codes of pairs of columns."""
    if not pairs or pairs[0][0].place.kind not in ("numpy", "cupy"):
        return [one.cross(other, weights) for one, other in pairs]
    xp = pairs[0][0].place.xp
    weights = xp.astype(weights, xp.float64, copy=False)
    if is_numpy(weights):
        return [_by_two_codes(one, other, weights) for one, other in pairs]
    each = [[(own.codes[0], *own.n_levels) for own in pair] for pair in pairs]
    shapes = [tuple(size + 1 for _, size in pair) for pair in each]
    ends = np.cumsum([0, *map(np.prod, shapes)])
    sums = zeros((int(ends[-1]), weights.shape[0]), like=weights, xp=xp)
    Slots.of(*each).add_sums(sums, weights)
    parts = zip(ends[:-1].tolist(), ends[1:].tolist(), shapes, strict=True)
    return [xp.reshape(sums[a:b, :].T, (-1, *shape))[:, :-1, :-1] for a, b, shape in parts]


def _by_two_codes(one, two, weights):
    """Sums (M, p, k) of weights by the codes of two columns, with NumPy."""
    (p,), (k,) = one.n_levels, two.n_levels
    size = (p + 1) * (k + 1)
    total: Any = 0.0
    for rows in cut(slice(0, one.shape[0]), max(PAIR_ROWS, size)):
        pairs = _slots(one.codes[0][rows], p).astype(np.int64) * (k + 1)
        pairs += _slots(two.codes[0][rows], k)
        total = total + np.stack([np.bincount(pairs, w[rows], size) for w in weights])
    return total.reshape(-1, p + 1, k + 1)[:, :p, :k]


def _slots(codes, n_levels):
    """Codes in which the last one replaces -1."""
    return codes if _has_all(codes) else codes % (n_levels + 1)


def _has_all(codes):
    """Whether every row must have a level."""
    return str(codes.dtype).rpartition(".")[2].startswith("u")


def _ends(columns):
    """Row pointers for rows with the same number of entries."""
    return np.arange(0, columns.size + 1, columns.shape[1], dtype=columns.dtype)


@dataclass(frozen=True)
class CodedBlock:
    """Some rows of codes."""

    rows: slice
    design: Coded
    floats: Any

    @property
    def n_levels(self) -> tuple[int, ...]:
        """The number of columns for each code."""
        return self.design.n_levels

    @cached_property
    def codes(self) -> tuple[Array, ...]:
        """The codes of the rows."""
        return tuple(codes[self.rows] for codes in self.design.codes)

    @cached_property
    def columns(self) -> Any:
        """Numbers (b, d) of the columns that are 1, p for none; with NumPy."""
        n_columns = sum(self.n_levels)
        dtype = np.int32 if n_columns < np.iinfo(np.int32).max else np.int64
        found = np.empty((len(self.codes[0]), len(self.codes)), dtype=dtype)
        for j, (codes, first, _) in enumerate(self._each()):
            np.add(codes, first, out=found[:, j], dtype=dtype, casting="unsafe")
            if not _has_all(codes):
                found[codes < 0, j] = n_columns
        return found

    def _each(self):
        return zip(self.codes, accumulate(self.n_levels, initial=0), self.n_levels, strict=False)

    @cached_property
    def indicators(self) -> Any:
        """The rows (b, p + 1) as a SciPy sparse matrix, whose last column means no level."""
        columns = self.columns
        ones = np.ones(columns.size, dtype=self.floats)
        shape = (len(columns), sum(self.n_levels) + 1)
        return sparse.csr_array((ones, columns.ravel(), _ends(columns)), shape=shape)

    def margins(self, coef: Array) -> Array:
        """``coef X'``: sums of the coefficients of the codes, 0 for rows without a level."""
        if is_numpy(coef):
            table = np.zeros((coef.shape[1] + 1, coef.shape[0]), dtype=coef.dtype)
            table[:-1] = coef.T
            return (self.indicators @ table).T
        if place_of(coef).kind == "cupy":
            return self.design.slots.gathered(coef, *self._run)
        xp = namespace(coef)
        nothing = xp.zeros_like(coef[:, :1])
        total: Any = 0.0
        for codes, first, n_levels in self._each():
            table = xp.concat([coef[:, first : first + n_levels], nothing], axis=1)
            slots = xp.astype(codes, xp.int64, copy=False) % (n_levels + 1)
            total = total + xp.take(table, slots, axis=1)
        return total

    def products(self, values: Array) -> Array:
        """``values X``: sums of numbers by code."""
        if is_numpy(values):
            by_row = np.ascontiguousarray(values.T)
            return (self.indicators.T @ by_row).T[:, :-1]
        if place_of(values).kind == "cupy":
            shape = (self.design.shape[1], values.shape[0])
            sums = zeros(shape, like=values, xp=namespace(values))
            self.design.slots.add_sums(sums, values, self._run[0])
            return sums.T
        return values @ namespace(values).astype(self.dense(), values.dtype)

    @property
    def _run(self):
        """The first row, and the number of rows."""
        start, stop, _ = self.rows.indices(self.design.shape[0])
        return start, stop - start

    def dense(self) -> Array:
        """The indicators in float64."""
        xp = namespace(self.codes[0])
        found = []
        for codes, _, n_levels in self._each():
            levels = xp.arange(n_levels, dtype=codes.dtype, device=device_of(codes))
            found.append(xp.astype(codes[:, None] == levels[None, :], xp.float64))
        return found[0] if len(found) == 1 else xp.concat(found, axis=1)

    def in_float64(self) -> "CodedBlock":
        """The same rows, for float64 products."""
        return replace(self, floats=namespace(self.codes[0]).float64)
