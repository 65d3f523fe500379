"""Columns of a table as numbers, or as codes of their sorted levels."""

from typing import Any

import numpy as np

from gpuml._arrays import HOST, Array, Place, move, namespace, to_host
from gpuml._arrays.ops import any_true
from gpuml._sklearn import is_pandas_na
from gpuml.compose._device_columns import DeviceColumn, NamesThere
from gpuml.compose._frames import FrameColumn
from gpuml.designs import Coded
from gpuml.solvers.table_rows import narrow, renumbered


def numbers_of(column: Any, place: Place = HOST) -> Array:
    """A column (n,) as float64 at a place, nan where a value is missing.

    Raises
    ------
    ValueError
        If it holds something else than numbers, or infinity.
    """
    if isinstance(column, DeviceColumn):
        return column.numbers()
    if isinstance(column, FrameColumn) and column.dtype.kind in "biuf":
        values = column.numbers()
    else:
        values = column if isinstance(column, np.ndarray) else _series_numbers(column)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"a column of dtype {values.dtype} holds no numbers")
    xp = place.xp
    values = xp.astype(move(values, place), xp.float64, copy=False)
    if any_true(xp.isinf(values), xp):
        raise ValueError("a column holds infinity")
    return values


def _series_numbers(column):
    kind = getattr(column.dtype, "kind", "O")
    if kind not in "biuf":
        raise ValueError(f"a column of dtype {column.dtype} holds no numbers")
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def count_levels(column: Any) -> int:
    """The number of levels of a column, without missing values."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "biufU":
            return len(np.unique(column))
        return len(set(column.tolist()))
    if isinstance(column, FrameColumn | DeviceColumn):
        return column.n_levels()
    return int(column.nunique())


def levels_of(column: Any, place: Place = HOST) -> tuple[Array, np.ndarray]:
    """Codes (n,) of a column at a place, and its levels in the order of scikit-learn's encoders.

    They are sorted; None and nan, where there are any, come last.

    Raises
    ------
    ValueError
        If values of several kinds have no order.
    """
    if isinstance(column, DeviceColumn):
        return column.levels()
    named = isinstance(column, FrameColumn) and column.dtype.kind == "O"
    if named or isinstance(column, NamesThere):
        codes, names = column.codes()
        return _in_order(codes, names, place)
    values = column if isinstance(column, np.ndarray) else None
    if isinstance(column, FrameColumn):
        values = column.values()
    if values is None and isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        values = column.to_numpy()
    if values is not None and values.dtype.kind in "biuf" and place != HOST:
        return DeviceColumn(move(values[:, None], place), 0).levels()
    if values is not None and values.dtype.kind in "biufU":
        levels, codes = np.unique(values, return_inverse=True)
        codes = codes.ravel()
    elif values is not None:
        codes, levels = _object_levels(values)
    elif hasattr(column.dtype, "categories"):
        categories = np.asarray(column.cat.categories, dtype=object)
        return _in_order(column.cat.codes.to_numpy(), categories, place)
    else:
        codes, levels = _series_levels(column)
    return (codes if place == HOST else move(narrow(codes, len(levels)), place)), levels


def _in_order(codes, names, place):
    """Codes of those of some names that are in use, sorted, and nan behind them for those of -1."""
    names, codes = np.asarray(names, dtype=object), move(codes, place)
    counts = counts_of_codes(codes, len(names))
    used = np.flatnonzero(counts)
    used = used[_order(names[used])]
    number = np.full(len(names) + 1, len(used))  # the last one is that of -1
    number[used] = np.arange(len(used))
    levels = names[used]
    has_all = counts.sum() == codes.shape[0]
    levels = _tight(levels) if has_all else np.append(levels, np.asarray([np.nan], dtype=object))
    if place != HOST:  # others than NumPy count no codes from the end
        codes = place.xp.astype(codes, place.xp.int64) % len(number)
    return renumbered(number, codes, len(number)), levels


def counts_of_codes(codes: Array, n_levels: int) -> np.ndarray:
    """How often each code occurs, without -1."""
    if isinstance(codes, np.ndarray):
        return np.bincount(codes[codes >= 0], minlength=n_levels)
    return to_host(Coded((codes,), (n_levels,), namespace(codes).float64).column_sums())


def _series_levels(column):
    codes, found = column.factorize()
    found = np.asarray(found, dtype=object)
    order = _order(found)
    number = np.empty(len(found) + 1, dtype=np.int64)
    number[order] = np.arange(len(found))
    levels = found[order]
    missing = np.flatnonzero(codes < 0)
    if len(missing) == 0:
        return number[codes], _tight(levels)
    codes = number[codes]
    # For gpuml's imputers and encoders, pandas.NA is nan, and None among objects a value.
    as_nan = {} if isinstance(column.dtype, np.dtype) else {"na_value": np.nan}
    holes = column.iloc[missing].to_numpy(dtype=object, **as_nan)
    codes[missing], more = _of_missing(holes, len(found))
    return codes, np.concatenate([levels, more])


def _object_levels(values):
    """The same of an array of objects."""
    try:
        is_missing = np.asarray([v is None or v != v for v in values], dtype=bool)
    except TypeError:  # of pandas.NA, comparisons have no truth
        missing = [v is None or is_pandas_na(v) or v != v for v in values]
        is_missing = np.asarray(missing, dtype=bool)
    known = sorted_set(values[~is_missing])
    table = {value: number for number, value in enumerate(known)}
    codes = np.empty(len(values), dtype=np.int64)
    codes[~is_missing] = [table[value] for value in values[~is_missing]]
    codes[is_missing], more = _of_missing(values[is_missing], len(known))
    return codes, np.concatenate([np.asarray(known, dtype=object), more])


def _of_missing(values, first):
    """Codes of missing values, from `first` on, and their levels: None, then nan."""
    strange = [v for v in values if v is not None and not isinstance(v, float)]
    if strange:
        raise ValueError(f"a column holds {strange[0]!r} among its levels; write None or nan")
    is_none = np.asarray([value is None for value in values], dtype=bool)
    kinds = [*([None] if is_none.any() else []), *([] if is_none.all() else [np.nan])]
    levels = np.asarray(kinds, dtype=object)
    return np.where(is_none, first, first + len(levels) - 1), levels


def sorted_set(values: Any) -> list:
    """Distinct values in order, None behind them; ValueError if they cannot be sorted."""
    found = set(values)
    try:
        return [*sorted(found - {None}), *(found & {None})]
    except TypeError as error:
        raise ValueError(f"the levels of a column cannot be sorted: {error}") from error


def _order(values):
    try:
        return np.asarray(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    except TypeError as error:
        raise ValueError(f"the levels of a column cannot be sorted: {error}") from error


def _tight(values):
    """Numbers and bools as such, so that they compare as they did in the column."""
    if len(values) and all(isinstance(value, bool | int | float) for value in values):
        return np.asarray(values.tolist())
    return values


def is_nan(value: Any) -> bool:
    """Whether a level represents missing values."""
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
