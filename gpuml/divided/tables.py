"""Divided rows as tables: numbers with holes, and categories as codes of known levels.

One reading finds the levels of all rows, and where holes are. Of files, each later one gives blocks
of numbers, with codes among them, of which a table is made at the place of the work. DataFrames and
arrays are tables where they are, as `gpuml.divided.frames` makes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, move, to_host
from gpuml.data import Absent, Batch, NeedsAllRows
from gpuml.divided.batch import Share
from gpuml.extending import TableStep
from gpuml.reading.levels import Coder, TooManyLevels, with_holes
from gpuml.reading.tables import Table as File
from gpuml.solvers.table_rows import MOST_LEVELS, Table, TableBatch, narrow

# Values that a column of categories may have, if rare ones are merged before sums are made.
MOST_GROUPED = 2**17
# Values of a column of numbers, of each piece, that say what is typical of it.
TYPICAL_ROWS = 64


@dataclass(frozen=True)
class KnownTable:
    """Columns that steps read, as one reading has found them.

    Attributes
    ----------
    frame : DataFrame or array
        Few rows that stand for all: they have each level, and a hole where there is any.
    table : Table
        Without rows: levels, and which columns have holes.
    shares : Holders
        Of shares whose X is a `Table`.
    """

    frame: Any
    table: Table
    shares: Any

    @property
    def n_columns(self) -> int:
        """About how many columns the design has when rare levels are merged."""
        table = self.table
        return min(table.n_columns, len(table.typical) + len(table.with_holes) + MOST_LEVELS)

    def batch(self, divided: Batch) -> TableBatch:
        """A divided batch of such shares as one of a table."""
        given = {each.name: getattr(divided, each.name) for each in fields(divided)}
        X = Absent((divided.n_rows, self.n_columns), divided.dtype)
        # As of DataFrames, results go to CPU memory.
        given |= {"X": X, "home": HOST, "classes": move(divided.classes, HOST)}
        return TableBatch(**given, table=self.table, source=self.frame)


def known_table(
    frame: Any, step: TableStep, survey: Callable[[Any], KnownTable], known: dict[Any, KnownTable]
) -> KnownTable:
    """The columns that a step reads.

    Parameters
    ----------
    frame : DataFrame or array
        Like X, of no or few rows.
    step : TableStep
    survey : callable
        Reads all rows for a layout of the step's.
    known : dict
        What was found before.

    Raises
    ------
    NeedsAllRows
        If a category has too many levels.
    ValueError
        For columns that X does not have, and for infinite values.
    """
    while True:
        layout = step.table_layout(frame)
        key = _key_of(layout)
        if key not in known:
            known[key] = survey(layout)
        found = known[key]
        again = step.table_layout(found.frame)
        # Integers with holes are floats in a DataFrame, and some imputers treat those otherwise.
        if _key_of(again) in known:
            return found
        frame = found.frame


def _key_of(layout):
    return layout.numbers, layout.coded, layout.grouped


def most_levels(layout: Any) -> list[int]:
    """How many levels each column of codes may have."""
    return [MOST_GROUPED if j in layout.grouped else MOST_LEVELS for j in layout.coded]


def survey_of_file(
    file: File,
    features: Sequence[str],
    read: Callable[[list[str], list[Any]], Any],
    layout: Any,
) -> KnownTable:
    """What a reading of a file finds.

    Parameters
    ----------
    file : Table
    features : sequence of str
        The columns of X.
    read : callable
        ``read(columns, readers)``: holders of shares whose X are blocks of these columns.
    layout : Layout
    """
    numbers, coded = ([features[j] for j in own] for own in (layout.numbers, layout.coded))
    coders = [Coder(*each) for each in zip(coded, most_levels(layout), strict=True)]
    columns = [*numbers, *coded]
    shares = read(columns, [*[with_holes] * len(numbers), *coders])
    try:
        facts = shares.each(_facts_of_piece, len(numbers))
    except TooManyLevels as error:
        raise NeedsAllRows(str(error)) from error
    of_columns = [_joined(each) for each in zip(*facts, strict=True)]
    values: dict[str, list[Any]] = {}
    typical = []
    for name, found in zip(numbers, of_columns, strict=False):
        if found.is_infinite:
            raise ValueError(f"Column {name!r} of {file.label} holds infinity.")
        some = found.some
        values[name] = [some[0]] if len(some) else []
        typical.append(typical_of(some))
    used = [np.flatnonzero(found.counts) for found in of_columns[len(numbers) :]]
    for coder, own in zip(coders, used, strict=True):
        values[coder.name] = [coder.values[code] for code in own]
    has_hole = dict(zip(columns, (found.has_hole for found in of_columns), strict=True))
    n_rows = max(2, *(len(own) + has_hole[name] for name, own in values.items()))
    frame = file.frame_of(features, _padded(values, has_hole, n_rows), n_rows)
    few = layout.read(frame, HOST)
    codes = tuple(
        _recoded(coder, own, few.codes[k], len(few.levels[k]))
        for k, (coder, own) in enumerate(zip(coders, used, strict=True))
    )
    table = replace(few.some(np.arange(0)), typical=np.asarray(typical))
    place = shares.place
    as_table = shares.map(_as_table, table, tuple(move(own, place) for own in codes), place)
    return KnownTable(frame, table, as_table)


def _padded(values, has_hole, n_rows):
    """Columns of values of one length, with a hole behind those of columns that have some."""
    found = {}
    for name, own in values.items():
        every = [*own, *([None] if has_hole[name] else [])]
        found[name] = every + [every[0]] * (n_rows - len(every))
    return found


def _recoded(coder, used, codes, n_levels):
    """Numbers of levels by the code of a value; the last one is that of a hole."""
    found = np.zeros(len(coder.values) + 1, dtype=np.int64)
    found[used] = codes[: len(used)]
    if len(used) < len(codes):
        found[-1] = codes[len(used)]
    return narrow(found, n_levels)


# ---------------------------------------------------------------- of pieces


@dataclass(frozen=True)
class Facts:
    """What some rows say of a column: of numbers some values, of codes how many rows have each."""

    has_hole: bool
    is_infinite: bool = False
    some: Any = field(default_factory=lambda: np.zeros(0))
    counts: Any = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def _facts_of_piece(share: Share, n_numbers: int) -> list[Facts]:
    X = share.X
    found = []
    for j in range(X.shape[1]):
        column = X[:, j]
        if j < n_numbers:
            hole = np.isnan(column)
            known = column[~hole] if hole.any() else column
            found.append(
                Facts(len(known) < len(column), bool(np.isinf(known).any()), some_of(known))
            )
        else:
            counts = np.bincount(column.astype(np.int64) + 1)
            found.append(Facts(bool(counts[0]), counts=counts[1:]))
    return found


def some_of(values: np.ndarray) -> np.ndarray:
    """A few of the values of a column, which say what is typical."""
    return values[:: max(1, len(values) // TYPICAL_ROWS)].copy()


def typical_of(some: np.ndarray) -> float:
    """What stands in the holes of a column, from a few values of each piece."""
    return float(np.median(some)) if len(some) else 0.0


def _joined(facts: Sequence[Facts]) -> Facts:
    counts = np.zeros(max(len(each.counts) for each in facts), dtype=np.int64)
    for each in facts:
        counts[: len(each.counts)] += to_host(each.counts)
    return Facts(
        any(each.has_hole for each in facts),
        any(each.is_infinite for each in facts),
        np.concatenate([to_host(each.some) for each in facts]),
        counts,
    )


def _as_table(share: Share, known: Table, recoded: Sequence[Any], place: Place) -> Share:
    """A share whose X is a table at a place."""
    X, xp, d = share.X, place.xp, len(known.typical)
    n, h = len(X), len(known.with_holes)
    if not any(X.strides):  # nobody looks at the values
        empty = [np.broadcast_to(np.zeros((), dtype=k), (n, w)) for k, w in (("f8", d), ("?", h))]
        codes: Any = [np.broadcast_to(np.zeros((), dtype=np.uint8), (n,)) for _ in recoded]
        numbers, holes = (move(each, place) for each in empty)
        codes = [move(each, place) for each in codes]
    else:
        X = move(X, place)
        numbers = X[:, :d]
        holes = xp.zeros((n, 0), dtype=xp.bool, device=place.device)
        if h:
            # Column by column, as blocks of files are in memory.
            missing = xp.isnan(numbers.T)
            holes = xp.take(missing, xp.asarray(known.with_holes, device=place.device), axis=0).T
            typical = xp.asarray(known.typical, device=place.device)
            numbers = xp.where(missing, typical[:, None], numbers.T).T
        codes = [
            xp.take(own, xp.astype(X[:, d + k], xp.int64) % own.shape[0], axis=0)
            for k, own in enumerate(recoded)
        ]
    return share._replace(X=replace(known, numbers=numbers, holes=holes, codes=tuple(codes)))
