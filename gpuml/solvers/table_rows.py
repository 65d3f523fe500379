"""Batches of tables: numbers with holes, and categories of which only the codes are held.

What imputers, scalers and encoders make of a table is a linear map of columns that no split
changes: the numbers with something in their holes, a 1 where a hole is, and a 1 for each level of a
category. Those of categories are never made.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from gpuml._arrays import HOST, Array, move
from gpuml.data import Batch, Rows, take
from gpuml.designs import Coded, Columns, Dense, Design, Flagged
from gpuml.solvers.moments import atom_shifts
from gpuml.solvers.numbered_rows import NumberedBatch

# So many numbers of a column say what is typical of it.
TYPICAL_ROWS = 4096


@dataclass(frozen=True)
class Table:
    """Columns of a table, as linear models in front of which steps stand read them.

    Attributes
    ----------
    numbers : float64 array (n, d)
        Without holes: a typical value of its column stands in each.
    holes : bool array (n, h)
        Where the holes are, of the columns that have some.
    with_holes : int array (h,)
        Numbers of these columns.
    typical : float64 array (d,)
        What stands in holes.
    codes : tuple of int arrays (n,)
        Numbers of levels, a column each.
    levels : tuple of arrays
        The levels, sorted, of each of these columns.
    merged : tuple of int arrays or None
        Of columns some of whose levels are groups of rare ones: of how many, and 0 for a level by
        itself. Empty where no column has such.
    apart : tuple of int
        Which columns with codes have so many levels that no sums over pairs of them are taken:
        their levels are the last columns of the design.
    """

    numbers: np.ndarray
    holes: np.ndarray
    with_holes: np.ndarray
    typical: np.ndarray
    codes: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    merged: tuple[Any, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        return self.numbers.shape[0]

    @property
    def n_columns(self) -> int:
        """Of the design, but for levels that stand apart."""
        return self.of_levels[-1].stop if self.levels else self._n_wide

    @property
    def n_apart(self) -> int:
        """How many levels stand apart."""
        return sum(len(self.levels[number]) for number in self.apart)

    @property
    def _n_wide(self):
        return self.numbers.shape[1] + self.holes.shape[1]

    @property
    def of_levels(self) -> list[slice]:
        """Columns of the design that are levels of each column with codes; none of those apart."""
        sizes = [0 if n in self.apart else len(own) for n, own in enumerate(self.levels)]
        ends = accumulate(sizes, initial=self._n_wide)
        return [slice(a, b) for a, b in pairwise(ends)]

    def first_apart(self, number: int) -> int:
        """How many levels stand apart before those of a column with codes."""
        before = self.apart[: self.apart.index(number)]
        return sum(len(self.levels[other]) for other in before)

    def hole_of(self, column: int) -> int | None:
        """The column of the design that says where a column of numbers has holes."""
        found = np.flatnonzero(self.with_holes == column)
        return self.numbers.shape[1] + int(found[0]) if len(found) else None

    def known(self, column: int, rows: Rows) -> np.ndarray:
        """Numbers of some rows of a column, but for the holes."""
        values = take(self.numbers[:, column], rows, np)
        hole = self.hole_of(column)
        if hole is None:
            return values
        return values[~take(self.holes[:, hole - self.numbers.shape[1]], rows, np)]

    def some(self, rows: np.ndarray) -> "Table":
        """Some of the rows, of the same memory where they are neighbours."""
        taken: Any = rows
        if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            taken = slice(int(rows[0]), int(rows[0]) + len(rows))
        codes = tuple(codes[taken] for codes in self.codes)
        return replace(self, numbers=self.numbers[taken], holes=self.holes[taken], codes=codes)

    def design(self, shift: np.ndarray | None = None, block_bytes: int | None = None) -> Design:
        """The columns side by side, those of numbers less a shift (p,), but for levels apart."""
        numbers = self.numbers if shift is None else self.numbers - shift[: self.numbers.shape[1]]
        parts: list[Design] = []
        near = [number for number in range(len(self.codes)) if number not in self.apart]
        if self.holes.shape[1]:
            parts.append(Flagged(numbers, HOST, self.holes))
        elif numbers.shape[1] or not near:
            parts.append(Dense(numbers, HOST))
        if near:
            parts.append(self._coded(near))
        return Columns(tuple(parts), block_bytes=block_bytes)

    def design_apart(self) -> Coded | None:
        """The levels that stand apart, if some do."""
        return self._coded(self.apart) if self.apart else None

    def _coded(self, numbers):
        sizes = tuple(len(self.levels[number]) for number in numbers)
        return Coded(tuple(self.codes[number] for number in numbers), sizes, np.float64)


@dataclass(frozen=True)
class TableBatch(NumberedBatch):
    """Rows of a table, in CPU memory.

    Attributes
    ----------
    table : Table
        Of all rows; X numbers those of the batch.
    source : array or DataFrame
        What the user gave.
    made : dict
        Which columns of the table are what steps make of each training part, if some are.
    """

    rows_at_once: ClassVar[int] = 2**14  # they become an array of all columns of numbers

    table: Any = None
    source: Any = None
    made: Any = None

    @property
    def n_features(self) -> int:
        """Columns of the design, but for levels that stand apart."""
        return self.table.n_columns

    @property
    def apart(self) -> Coded | None:
        """The levels that stand apart, if some do."""
        return self._own_table.design_apart()

    @property
    def dtype(self) -> Any:
        """Of the design."""
        return np.dtype(np.float64)

    def rows(self, taken: Array) -> np.ndarray:
        """Rows of the design by their numbers (m, 1)."""
        numbers = taken[:, 0]
        if len(numbers) == 0:
            return np.zeros((0, self.n_features))
        return self.table.some(numbers).design().block(slice(0, len(numbers))).dense()

    def answering(self, taken: Array) -> Design:
        """Rows by their numbers (m, 1), of whose categories there are the codes alone."""
        table = self.table.some(taken[:, 0])
        apart = table.design_apart()
        return table.design() if apart is None else Columns((table.design(), apart))

    @property
    def n_numbers(self) -> int:
        """How many numbers a row takes in memory while it is read."""
        table = self.table
        return table.numbers.shape[1] + table.holes.shape[1] + 2 * len(table.codes)

    def design(self, block_bytes: int | None = None) -> Design:
        """The rows as solvers see them."""
        return self._own_table.design(block_bytes=block_bytes)

    @property
    def _own_table(self):
        """The rows of the table that the batch has."""
        whole = self.n_rows == self.table.n_rows
        return self.table if whole else self.table.some(self.X[:, 0])

    def about(self, numbers: Array, shift: Array) -> Design:
        """Some rows less a shift (p,), which is 0 but for numbers."""
        return self.table.some(numbers[:, 0]).design(shift)

    def shifts(self, atoms: tuple[Rows, ...]) -> Array:
        """Near the means of numbers and targets of each atom, 0 for all else, (A, q - 1)."""
        numbers = self.table.numbers
        if self.n_rows < self.table.n_rows:
            numbers = numbers[self.X[:, 0]]
        d = numbers.shape[1]
        own = numbers if d else np.zeros((self.n_rows, 1))
        rows = Batch(own, self.y, self.weight, self.work, self.home, self.y_is_flat)
        found = atom_shifts(rows, atoms)
        shifts = np.zeros((len(found), self.n_features + self.y.shape[1]))
        shifts[:, :d] = found[:, :d]
        shifts[:, self.n_features :] = found[:, own.shape[1] :]
        return shifts


def table_batch(batch: Batch, table: Table, source: Any) -> TableBatch:
    """The targets and weights of a batch, and rows of a table."""
    return TableBatch(
        X=np.arange(table.n_rows)[:, None],
        y=move(batch.y, HOST),
        weight=move(batch.weight, HOST),
        codes=move(batch.codes, HOST),
        work=HOST,
        home=HOST,
        y_is_flat=batch.y_is_flat,
        classes=batch.classes,
        table=table,
        source=source,
    )


def make_table(
    numbers: Iterable[np.ndarray],
    n_numbers: int,
    coded: Iterable[tuple[np.ndarray, np.ndarray]],
    n_rows: int,
) -> Table:
    """A table of columns of numbers (n,), nan where a hole is, and of (codes (n,), levels).

    They are asked for one after the other, so that no more than one is held as it is given.
    """
    values, typical = np.empty((n_rows, n_numbers)), np.zeros(n_numbers)
    holes: dict[int, np.ndarray] = {}
    for number, given in enumerate(numbers):
        values[:, number] = given
        hole = np.isnan(given)
        if not hole.any():
            continue
        holes[number] = hole
        known = given[~hole]
        # Robust, so that no wild value takes digits from all others; it need not be exact.
        few = known[:: max(1, len(known) // TYPICAL_ROWS)]
        typical[number] = np.median(few) if len(few) else 0.0
        values[hole, number] = typical[number]
    narrowed = [(narrow(codes, len(levels)), levels) for codes, levels in coded]
    return Table(
        numbers=values,
        holes=np.stack([*holes.values()], axis=1) if holes else np.zeros((n_rows, 0), dtype=bool),
        with_holes=np.asarray([*holes], dtype=np.int64),
        typical=typical,
        codes=tuple(codes for codes, _ in narrowed),
        levels=tuple(levels for _, levels in narrowed),
    )


def narrow(codes: np.ndarray, n_levels: int) -> np.ndarray:
    """Codes of the smallest unsigned dtype that numbers so many levels."""
    dtype = next(d for d in (np.uint8, np.uint16, np.uint32) if n_levels < np.iinfo(d).max)
    return codes.astype(dtype)
