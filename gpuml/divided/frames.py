"""Divided DataFrames of pandas, and arrays, as tables: what all rows hold is found where they are.

Each share says of each column a few values: of categories one of each level, and a hole where there
is any. Few rows that have all of these stand for all rows to steps, and each share becomes codes of
the levels that they have.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, to_host
from gpuml._arrays.ops import side_by_side
from gpuml.data import Holders, NeedsAllRows
from gpuml.divided.batch import Share
from gpuml.divided.tables import KnownTable, most_levels, some_of, typical_of
from gpuml.solvers.table_rows import Table, renumbered

_NAN = object()  # in place of what does not equal itself


@dataclass(frozen=True)
class Seen:
    """What some rows say of X.

    Attributes
    ----------
    columns : list of Series or arrays
        Some value of each column; of those that steps read, each level, and a hole where there is
        any.
    some : tuple of arrays
        Values of each column of numbers that say what is typical.
    """

    columns: list[Any]
    some: tuple[np.ndarray, ...]


def survey_of_frames(shares: Holders, layout: Any) -> KnownTable:
    """What one reading finds of shares whose X are DataFrames of pandas, or arrays.

    Raises
    ------
    NeedsAllRows
        If a column has too many levels, or rows are sparse.
    ValueError
        For infinite values, and levels that have no order.
    """
    place = shares.place
    own = shares.map(_read, layout, place)
    seen = own.total(_seen, layout, combine=partial(_both, layout))
    frame = _frame(seen.columns)
    few = layout.read(frame, HOST)
    typical = np.asarray([typical_of(some) for some in seen.some])
    known = replace(few.some(np.arange(0)), typical=typical)
    return KnownTable(frame, known, own.map(_as_table, known, place))


def rows_like(header: Any, n_rows: int) -> Any:
    """Rows of the dtypes of a DataFrame of pandas: zeros, and missing values in other columns."""
    import pandas

    rows = pandas.RangeIndex(n_rows)
    columns = [
        pandas.Series(0, rows, dtype) if dtype.kind in "biuf" else header.iloc[:, j].reindex(rows)
        for j, dtype in enumerate(header.dtypes)
    ]
    return pandas.concat(columns, axis=1).set_axis(header.columns, axis=1)


def _read(share: Share, layout: Any, place: Place) -> tuple[Share, Table]:
    """A share, and the table that it is by itself."""
    if hasattr(share.X, "tocsr"):
        raise NeedsAllRows("Sparse rows are fitted in one place.")
    return share, layout.read(share.X, place)


def _seen(piece: tuple[Share, Table], layout: Any) -> Seen:
    share, table = piece
    columns = range(table.numbers.shape[1])
    some = [some_of(to_host(table.known(column, slice(None)))) for column in columns]
    return Seen(_values(share.X, layout, table), tuple(some))


def _both(layout: Any, one: Seen, other: Seen) -> Seen:
    some = tuple(np.concatenate(pair) for pair in zip(one.some, other.some, strict=True))
    X = _frame([_joined(pair) for pair in zip(one.columns, other.columns, strict=True)])
    return Seen(_values(X, layout, layout.read(X, HOST)), some)


def _values(X: Any, layout: Any, table: Table) -> list[Any]:
    """A few values of each column of X."""
    rows = [np.zeros(1, dtype=np.int64) for _ in range(X.shape[1])]
    for column, j in enumerate(layout.numbers):
        missing = _holes_of(table, column)
        if missing is not None:
            missing = to_host(missing)
            rows[j] = np.unique([missing.argmax(), missing.argmin()])
    of_codes = zip(layout.coded, most_levels(layout), table.codes, table.levels, strict=True)
    for j, most, codes, levels in of_codes:
        n_holes = sum(value is None or value != value for value in levels[-2:].tolist())
        if len(levels) - n_holes > most:
            raise NeedsAllRows(
                f"Column {list(X.columns)[j] if hasattr(X, 'columns') else j!r} has more than "
                f"{most:,} values, and codes of categories of divided rows pay off up to that; "
                "give OneHotEncoder min_frequency or max_categories, or leave the column out."
            )
        first = np.unique(to_host(codes), return_index=True)[1]
        rows[j] = np.union1d(rows[j], first)
    if isinstance(X, np.ndarray):
        return [X[own, j] for j, own in enumerate(rows)]
    return [X.iloc[own, j] for j, own in enumerate(rows)]


def _frame(columns: Sequence[Any]) -> Any:
    """Rows of columns of different lengths, of which short ones are repeated."""
    n_rows = max(map(len, columns))
    every = [column.take(np.resize(np.arange(len(column)), n_rows)) for column in columns]
    if isinstance(every[0], np.ndarray):
        return np.stack(every, axis=1)
    import pandas

    return pandas.concat([column.reset_index(drop=True) for column in every], axis=1)


def _joined(columns):
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    import pandas

    return pandas.concat(columns, ignore_index=True)


def _as_table(piece: tuple[Share, Table], known: Table, place: Place) -> Share:
    """A share whose X is a table, with the levels and holes of all rows."""
    (share, own), xp = piece, place.xp
    numbers, holes = own.numbers, own.holes
    if len(known.with_holes):
        numbers = xp.asarray(numbers, copy=True)  # others may look at the piece
        none = xp.zeros(own.n_rows, dtype=xp.bool, device=place.device)
        found = [_holes_of(own, column) for column in known.with_holes]
        each = [none if hole is None else hole for hole in found]
        for column, hole in zip(known.with_holes, each, strict=True):
            numbers[:, column] = xp.where(hole, known.typical[column], numbers[:, column])
        holes = side_by_side([hole[:, None] for hole in each], place)
    codes = tuple(
        renumbered(_numbers_among(every, some), each, len(every))
        for each, some, every in zip(own.codes, own.levels, known.levels, strict=True)
    )
    return share._replace(X=replace(known, numbers=numbers, holes=holes, codes=codes))


def _holes_of(table, column):
    """Where a column of numbers has holes (n,); None if it has none."""
    hole = table.hole_of(column)
    return None if hole is None else table.holes[:, hole - table.numbers.shape[1]]


def _numbers_among(levels: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Numbers of some levels among all of them."""
    number = {_key(value): i for i, value in enumerate(levels.tolist())}
    try:
        return np.asarray([number[_key(value)] for value in some.tolist()], dtype=np.int64)
    except KeyError as error:
        raise NeedsAllRows(
            f"The value {error.args[0]!r} of a column is another one where parts of the rows are "
            "joined. Give the column the same dtype in all parts."
        ) from error


def _key(value):
    return value if value == value else _NAN
