"""Batches of tables: numbers with missing values, and categories as codes.

What imputers, scalers and encoders make of a table is a linear map of columns that no split
changes: the numbers with something in their holes, a 1 where a hole is, and a 1 for each level of a
category. Those of categories are never made.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    is_foreign,
    is_numpy,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import all_true, any_true, side_by_side
from gpuml.data import Batch, Rows, take
from gpuml.designs import Coded, Columns, Dense, Design, Flagged
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.shifts import atom_shifts

# Sums over pairs of more levels than this take longer than they save.
MOST_LEVELS = 1024
# So many numbers of a column give a typical value.
TYPICAL_ROWS = 4096


@dataclass(frozen=True)
class Table:
    """The columns of a table, as steps before linear models read them.

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
    positions : (tuple of int, tuple of int), or None
        Where in X the columns of numbers and those of codes are, as far as they are of X.

    Numbers, holes and codes are where the rows are worked on, all else is in CPU memory.
    """

    numbers: Array
    holes: Array
    with_holes: np.ndarray
    typical: np.ndarray
    codes: tuple[Array, ...]
    levels: tuple[np.ndarray, ...]
    merged: tuple[Any, ...] = ()
    apart: tuple[int, ...] = ()
    positions: Any = None

    @property
    def n_rows(self) -> int:
        return self.numbers.shape[0]

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return place_of(self.numbers)

    @property
    def n_columns(self) -> int:
        """The number of columns of the design, without levels kept apart."""
        return self.of_levels[-1].stop if self.levels else self._n_wide

    @property
    def n_apart(self) -> int:
        """The number of levels kept apart."""
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
        """The number of levels kept apart before those of a given column."""
        before = self.apart[: self.apart.index(number)]
        return sum(len(self.levels[other]) for other in before)

    def hole_of(self, column: int) -> int | None:
        """The column of the design that says where a column of numbers has holes."""
        found = np.flatnonzero(self.with_holes == column)
        return self.numbers.shape[1] + int(found[0]) if len(found) else None

    def known(self, column: int, rows: Rows) -> Array:
        """Numbers of some rows of a column, without missing values."""
        xp, hole = self.place.xp, self.hole_of(column)
        values = take(self.numbers[:, column], rows, xp)
        if hole is None:
            return values
        return values[~take(self.holes[:, hole - self.numbers.shape[1]], rows, xp)]

    def median(self, column: int, rows: Rows) -> float:
        """The median of some rows of a column, without missing values."""
        values = self.known(column, rows)
        if is_numpy(values):
            return float(np.median(values))
        values = self.place.xp.sort(values)
        middle = (values.shape[0] - 1) // 2, values.shape[0] // 2
        return 0.5 * sum(float(values[i]) for i in middle)

    def most_frequent(self, column: int, rows: Rows) -> float:
        """The number that most of some rows of a column have, the smallest one of several."""
        found = self.place.xp.unique_counts(self.known(column, rows))
        values, counts = (to_host(a) for a in found)
        return float(values[counts == counts.max()].min())

    def some(self, rows: Array) -> "Table":
        """Some of the rows; consecutive rows share memory."""
        xp, first = self.place.xp, int(rows[0]) if rows.shape[0] else 0
        run = xp.arange(first, first + rows.shape[0], dtype=rows.dtype, device=self.place.device)
        one = rows.shape[0] > 0 and all_true(rows == run, xp)
        own: Any = slice(first, first + rows.shape[0]) if one else rows
        codes = tuple(take(codes, own, xp) for codes in self.codes)
        numbers, holes = (take(a, own, xp) for a in (self.numbers, self.holes))
        return replace(self, numbers=numbers, holes=holes, codes=codes)

    def design(self, shift: Array | None = None, block_bytes: int | None = None) -> Design:
        """The columns side by side, numbers less a shift (p,), without levels kept apart."""
        numbers, place = self.numbers, self.place
        if shift is not None:
            own = move(shift[: numbers.shape[1]], place)
            numbers = (numbers.T - own[:, None]).T  # as columns are in memory
        parts: list[Design] = []
        near = [number for number in range(len(self.codes)) if number not in self.apart]
        if self.holes.shape[1]:
            parts.append(Flagged(numbers, place, self.holes))
        elif numbers.shape[1] or not near:
            parts.append(Dense(numbers, place))
        if near:
            parts.append(self._coded(near))
        return Columns(tuple(parts), block_bytes=block_bytes)

    def design_apart(self) -> Coded | None:
        """The levels kept apart, if there are any."""
        return self._coded(self.apart) if self.apart else None

    def _coded(self, numbers):
        sizes = tuple(len(self.levels[number]) for number in numbers)
        return Coded(tuple(self.codes[number] for number in numbers), sizes, self.place.xp.float64)


@dataclass(frozen=True)
class TableBatch(NumberedBatch):
    """Rows of a table.

    Attributes
    ----------
    table : Table
        Of all rows; X numbers those of the batch.
    source : array or DataFrame
        What the user gave.
    made : dict
        Which columns of the table are what steps make of each training part, if some are.
    statistics : dict of (str, int) to array (S + 1,)
        Medians and most frequent values of columns of numbers of divided rows, over training parts
        and over all rows, by the strategies of imputers.
    ungrouped : dict of int to (values, counts)
        Of columns of divided rows whose rare levels are groups, what they were: all levels, and
        how many rows have each.
    n_readings : int
        How often rows were read to make this batch of another one.
    """

    solved_here: ClassVar[bool] = True  # steps compute with moments in CPU memory

    table: Any = None
    source: Any = None
    made: Any = None
    statistics: Any = None
    ungrouped: Any = None
    n_readings: int = 0

    @property
    def rows_at_once(self) -> int:
        """They become an array of all columns of numbers."""
        return 2**14 if self.work.is_host else 2**20

    @property
    def multiplied(self) -> tuple[int, int]:
        """Rows of a block, and columns of numbers; of codes there are sums only."""
        table = self.table
        return self.rows_at_once, table.numbers.shape[1] + table.holes.shape[1]

    @property
    def n_features(self) -> int:
        """The number of columns of the design, without levels kept apart."""
        return self.table.n_columns

    @property
    def apart(self) -> Coded | None:
        """The levels kept apart, if there are any."""
        return self._own_table.design_apart() if self.table.apart else None

    @property
    def dtype(self) -> Any:
        """Of the design."""
        return np.dtype(np.float64)

    def rows(self, taken: Array) -> Array:
        """Rows of the design by their numbers (m, 1)."""
        numbers, xp = taken[:, 0], self.work.xp
        if numbers.shape[0] == 0:
            return xp.zeros((0, self.n_features), dtype=xp.float64, device=self.work.device)
        return self.table.some(numbers).design().block(slice(0, numbers.shape[0])).dense()

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
        """Some rows less a shift (p,), which is 0 except for numbers."""
        return self.table.some(numbers[:, 0]).design(shift)

    def shifts(self, atoms: tuple[Rows, ...]) -> Array:
        """Near the means of numbers and targets of each atom, 0 for all else, (A, q - 1)."""
        xp, numbers = self.work.xp, self.table.numbers
        if self.n_rows < self.table.n_rows:
            numbers = take(numbers, self.X[:, 0], xp)
        d = numbers.shape[1]
        if not d:
            numbers = xp.zeros((self.n_rows, 1), dtype=xp.float64, device=self.work.device)
        rows = Batch(numbers, self.y, self.weight, self.work, self.home, self.y_is_flat)
        found = atom_shifts(rows, atoms)
        none = xp.zeros_like(found[:, :1])
        between = xp.broadcast_to(none, (found.shape[0], self.n_features - d))
        return xp.concat([found[:, :d], between, found[:, numbers.shape[1] :]], axis=1)


def table_batch(batch: Batch, table: Table, source: Any) -> TableBatch:
    """The targets and weights of a batch, and rows of a table."""
    place, xp = table.place, table.place.xp
    home = place if is_foreign(source) else HOST  # DataFrames are in CPU memory
    return TableBatch(
        X=xp.arange(table.n_rows, dtype=xp.int64, device=place.device)[:, None],
        y=move(batch.y, place),
        weight=move(batch.weight, place),
        codes=move(batch.codes, place),
        work=place,
        home=home,
        y_is_flat=batch.y_is_flat,
        classes=batch.classes,
        table=table,
        source=source,
    )


def make_table(
    numbers: Iterable[Array],
    n_numbers: int,
    coded: Iterable[tuple[Array, np.ndarray]],
    n_rows: int,
    place: Place = HOST,
) -> Table:
    """A table of columns of numbers (n,), nan where a hole is, and of (codes (n,), levels).

    They are asked for one after the other, so that no more than one is held as it is given.
    """
    xp, there = place.xp, {"device": place.device}
    shape = (n_rows, n_numbers) if place.is_host else (n_numbers, n_rows)
    values = xp.empty(shape, dtype=xp.float64, **there)
    values = values if place.is_host else values.T  # as in `side_by_side`
    typical, holes = np.zeros(n_numbers), {}
    for number, given in enumerate(numbers):
        hole = xp.isnan(given)
        if any_true(hole, xp):
            holes[number] = hole
            known = given[~hole]
            # Robust, so that no wild value takes digits from all others; it need not be exact.
            few = to_host(known[:: max(1, known.shape[0] // TYPICAL_ROWS)])
            typical[number] = np.median(few) if len(few) else 0.0
            given = xp.where(hole, xp.full_like(given, typical[number]), given)
        values[:, number] = given
    no_holes = xp.empty((n_rows, 0), dtype=xp.bool, **there)
    narrowed = [(narrow(codes, len(levels)), levels) for codes, levels in coded]
    return Table(
        numbers=values,
        holes=side_by_side([a[:, None] for a in holes.values()], place) if holes else no_holes,
        with_holes=np.asarray([*holes], dtype=np.int64),
        typical=typical,
        codes=tuple(codes for codes, _ in narrowed),
        levels=tuple(levels for _, levels in narrowed),
    )


def narrow(codes: Array, n_levels: int) -> Array:
    """Codes of the smallest unsigned dtype for so many levels."""
    xp = namespace(codes)
    # Others than NumPy and CuPy look up by signed ones, and bytes.
    wide = (xp.uint16, xp.uint32) if place_of(codes).kind in ("numpy", "cupy") else (xp.int32,)
    dtype = next(d for d in (xp.uint8, *wide) if n_levels < xp.iinfo(d).max)
    return xp.astype(codes, dtype)


def renumbered(numbers: np.ndarray, codes: Array, n_levels: int) -> Array:
    """Codes (n,) replaced by their new numbers (L,), in the smallest dtype."""
    place = place_of(codes)
    found = narrow(move(numbers, place), n_levels)
    if place == HOST:
        return found[codes]
    return place.xp.take(found, place.xp.astype(codes, place.xp.int64, copy=False))
