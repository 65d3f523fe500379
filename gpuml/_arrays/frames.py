"""DataFrames that become arrays at the door: those of cuDF, on their device.

DataFrames in CPU memory (pandas, polars, Arrow) are left to scikit-learn; see
`gpuml._inputs.host_rows`. No library of DataFrames is imported here before
somebody hands in one of its own.
"""

import weakref
from typing import Any

import array_api_compat
import numpy as np

Array = Any

NUMERIC_KINDS = "fiub"


def refuse_lazy(x: Any) -> None:
    """Raise TypeError for a polars LazyFrame, whose rows were not worked out yet."""
    if type(x).__module__.startswith("polars") and hasattr(x, "collect"):
        raise TypeError("Got a polars LazyFrame; call .collect() first.")


def is_host_frame(x: Any) -> bool:
    """Whether `x` is a DataFrame of pandas or polars, or a table of Arrow."""
    if hasattr(x, "iloc"):
        return hasattr(x, "columns")
    return type(x).__module__.partition(".")[0] in ("polars", "pyarrow") and hasattr(x, "columns")


def in_pandas(columns: dict[str, np.ndarray]) -> Any:
    """A DataFrame of pandas."""
    import pandas

    return pandas.DataFrame(columns)


def is_cudf(x: Any) -> bool:
    """Whether `x` is a DataFrame, series or index of cuDF, or looks like one."""
    return hasattr(x, "to_cupy")


def from_cudf(x: Any) -> Any:
    """Columns of cuDF as one array on their device, or as pandas if an array cannot hold them.

    A missing value becomes nan, and integers beside it float64, as pandas has it. Columns of other
    types (strings, categories, dates, decimals) make it a DataFrame of pandas: scikit-learn reads
    that, or refuses it in its own words.
    """
    columns = _series_of(x)
    if not all(getattr(column.dtype, "kind", "O") in NUMERIC_KINDS for column in columns):
        return x.to_pandas()
    if len({column.dtype for column in columns}) <= 1 and not any(map(_has_nulls, columns)):
        array = x.to_cupy()
    elif not hasattr(x, "columns"):
        array = _values(columns[0])
    else:
        array = _joined([_values(column) for column in columns])
    if hasattr(x, "columns"):
        _remember(array, list(x.columns))
    return array


def _series_of(x):
    return [x[name] for name in x.columns] if hasattr(x, "columns") else [x]


def _has_nulls(column):
    return int(column.null_count) > 0


def _values(column):
    """A column (n,) as an array, with nan for what is missing."""
    if not _has_nulls(column):
        return column.to_cupy()
    if column.dtype.kind != "f":
        column = column.astype("float64")
    # Whether nan counts as missing differs between versions; here both give nan.
    values, missing = column.fillna(0).to_cupy(), column.isna().to_cupy()
    xp = array_api_compat.array_namespace(values)
    return xp.where(missing, xp.full_like(values, xp.nan), values)


def _joined(columns):
    """Columns as a matrix of a dtype that holds them all."""
    xp = array_api_compat.array_namespace(*columns)
    common = np.result_type(*[np.dtype(str(x.dtype).rpartition(".")[2]) for x in columns])
    return xp.stack([xp.astype(x, getattr(xp, common.name)) for x in columns], axis=1)


# ---------------------------------------------------------------- names beside arrays

# Arrays have no names of columns, so those of a DataFrame are kept beside the array that was made
# of it, as long as that array lives: {id: (array, names)}.
_names: dict[int, tuple[weakref.ref, list]] = {}


def _remember(array, names):
    key = id(array)
    _names[key] = (weakref.ref(array, lambda _: _names.pop(key, None)), names)


def header_of(X: Any) -> Any:
    """What stands for X where names of columns are looked at.

    X itself, but for an array that was made of a DataFrame: then an empty one with its columns.
    """
    if id(X) not in _names:
        return X
    import pandas as pd

    return pd.DataFrame(columns=_names[id(X)][1])


def was_frame(X: Any) -> bool:
    """Whether X is an array that `from_cudf` made of a DataFrame."""
    return id(X) in _names
