"""Columns of files as numbers with holes, as codes of their values, and as small DataFrames."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuml._arrays.frames import frame_of_arrow


class TooManyLevels(ValueError):
    """A column has more values than codes pay for."""


class Coder:
    """Codes of the values of a column, numbered as readings meet them.

    Called with some rows of the column, it returns their codes (b,), float64, -1 for what is
    missing: null, and nan.

    Parameters
    ----------
    name : str
    most : int
        How many values there may be.

    Attributes
    ----------
    values : list
        By code, in an order that depends on the threads that read.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.reading.levels import Coder
    >>> coder = Coder("size", 10)
    >>> coder(np.array([2.0, np.nan, 7.0])), coder(np.array([7.0])), coder.values
    (array([ 0., -1.,  1.]), array([1.]), [2.0, 7.0])
    """

    def __init__(self, name: str, most: int):
        self.name, self._most = name, most
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._known: tuple[Any, np.ndarray] | None = None
        self._lock = threading.Lock()

    def __call__(self, column: Any) -> np.ndarray:
        if isinstance(column, np.ndarray):
            values, places = np.unique(column, return_inverse=True)
            return self._numbered(values.tolist())[places]
        if not _is_dictionary(column.type):
            column = column.dictionary_encode()
        known = self._known
        # Batches of a row group have their dictionary in common.
        if known is None or not known[0].equals(column.dictionary):
            known = column.dictionary, self._numbered(column.dictionary.to_pylist())
            self._known = known
        places = column.indices.cast("int64").fill_null(len(known[1]) - 1)
        return known[1][places.to_numpy()]

    def _numbered(self, values):
        """Codes of some values, and -1 behind them."""
        found = np.full(len(values) + 1, -1.0)
        with self._lock:
            for i, value in enumerate(values):
                if value is None or value != value:
                    continue
                if value not in self._codes:
                    if len(self.values) == self._most:
                        raise TooManyLevels(
                            f"column {self.name!r} has more than {self._most:,} values, and codes "
                            "of categories of files pay off up to that; give OneHotEncoder "
                            "min_frequency or max_categories, or leave the column out"
                        )
                    self._codes[value] = len(self.values)
                    self.values.append(value)
                found[i] = self._codes[value]
        return found


def with_holes(column: Any) -> np.ndarray:
    """Numbers (b,) of a column, nan for null."""
    if isinstance(column, np.ndarray):
        return column
    import pyarrow.types as kinds

    if kinds.is_boolean(column.type):
        column = column.cast("uint8")
    if kinds.is_decimal(column.type):
        column = column.cast("float64")
    return column.to_numpy(zero_copy_only=False)


def frame_of(schema: Sequence[Any], values: Mapping[str, Sequence[Any]], n_rows: int) -> Any:
    """A DataFrame of few rows with the dtypes of all rows, and some values.

    Parameters
    ----------
    schema : sequence of pyarrow.Field
        Of the columns.
    values : dict of str to sequences of n values
        Of some of them, None for missing ones. Others hold whatever is of their types.
    n_rows : int
    """
    import pyarrow as pa

    made = {}
    for field in schema:
        if field.name in values:
            made[field.name] = _array(values[field.name], field.type)
        else:
            made[field.name] = _nothing(field.type, n_rows)
    return frame_of_arrow(pa.table(made))


def _array(values, kind):
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if kinds.is_floating(kind) or kinds.is_decimal(kind) or (_is_number(kind) and None in values):
        wide = pa.float64() if not kinds.is_floating(kind) else kind
        return pa.array([None if v is None else float(v) for v in values], wide)
    if kinds.is_integer(kind):
        return pa.array([int(v) for v in values], kind)
    return (
        pa.array([bool(v) for v in values], kind)
        if kinds.is_boolean(kind)
        else pa.array(values, kind)
    )


def _nothing(kind, n_rows):
    import pyarrow as pa

    if _is_number(kind):
        return pa.array([0] * n_rows).cast(kind)
    if _is_dictionary(kind):
        return pa.nulls(n_rows, kind.value_type).dictionary_encode()
    return pa.nulls(n_rows, kind)


def _is_number(kind):
    import pyarrow.types as kinds

    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)


def _is_dictionary(kind):
    import pyarrow.types as kinds

    return kinds.is_dictionary(kind)
