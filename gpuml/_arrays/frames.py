"""DataFrames that become arrays at the door: those of cuDF, on their device.

DataFrames in CPU memory (pandas, polars, Arrow) are left to scikit-learn; see
`gpuml._inputs.host_rows`. No library of DataFrames is imported here before
somebody hands in one of its own.
"""

import weakref
from typing import Any, ClassVar

import array_api_compat
import numpy as np

Array = Any

NUMERIC_KINDS = "fiub"
# What dtypes of strings are called, in versions of cuDF.
TEXT = ("object", "str", "string")


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


def in_frame(columns: dict[str, np.ndarray]) -> Any:
    """A DataFrame of pandas; of polars where only that is installed.

    Raises
    ------
    ImportError
        If neither is.
    """
    try:
        return in_pandas(columns)
    except ImportError:
        pass
    try:
        import polars
    except ImportError as error:
        raise ImportError(
            "A DataFrame needs pandas or polars, and neither is installed. Type: pip install pandas"
        ) from error
    return polars.DataFrame({name: list(values) for name, values in columns.items()}, strict=False)


def frame_of_arrow(table: Any) -> Any:
    """A DataFrame of a table of Arrow: of pandas, or of polars where only that is installed.

    Missing strings are nan, as in the DataFrames of pandas that steps impute.
    """
    try:
        made = table.to_pandas()
    except ImportError:
        import polars

        return polars.from_arrow(table)
    for name, dtype in zip(made.columns, made.dtypes, strict=True):
        if dtype.kind == "O" and str(dtype) == "object":  # strings, before pandas 3
            made[name] = made[name].where(made[name].notna(), np.nan)
    return made


def is_cudf(x: Any) -> bool:
    """Whether `x` is a DataFrame, series or index of cuDF, or looks like one."""
    return hasattr(x, "to_cupy")


def from_cudf(x: Any) -> Any:
    """Columns of cuDF as one array on their device, or as pandas if an array cannot hold them.

    A missing value becomes nan, and integers beside it float64, as pandas has it. Columns of other
    types (strings, categories, dates, decimals) make it a DataFrame of pandas: scikit-learn reads
    that, or refuses it in its own words. Of strings only the distinct ones come to CPU memory, and
    a code for each row; `DeviceFrame.of` gives what was coded on the device.
    """
    columns = _series_of(x)
    if not all(getattr(column.dtype, "kind", "O") in NUMERIC_KINDS for column in columns):
        return DeviceFrame(x).in_pandas() if hasattr(x, "columns") else x.to_pandas()
    if _are_alike(columns):
        array = x.to_cupy()
    elif not hasattr(x, "columns"):
        array = _values(columns[0])
    else:
        array = _joined([_values(column) for column in columns])
    if hasattr(x, "columns"):
        _remember(array, list(x.columns))
    return array


class DeviceFrame:
    """Columns of a DataFrame of cuDF, beside the DataFrame of pandas that was made of it.

    Parameters
    ----------
    frame : cudf.DataFrame
    """

    _known: ClassVar[dict[int, tuple[weakref.ref, "DeviceFrame"]]] = {}

    def __init__(self, frame: Any):
        self._frame, self._names = frame, list(frame.columns)
        self._coded: dict[int, tuple[Any, Any]] = {}

    @classmethod
    def of(cls, x: Any) -> "DeviceFrame | None":
        """The columns from which a pandas DataFrame was made, while these exist."""
        ref, found = cls._known.get(id(x), (lambda: None, None))
        return found if ref() is x else None

    def in_pandas(self) -> Any:
        """The same as a DataFrame of pandas, strings by their codes."""
        import pandas

        columns = {name: self._series(j) for j, name in enumerate(self._names)}
        made = pandas.DataFrame(columns)
        if hasattr(self._frame, "index"):
            made.index = self._frame.index.to_pandas()
        key = id(made)
        self._known[key] = weakref.ref(made, lambda _: self._known.pop(key, None)), self
        return made

    def is_coded(self, j: int) -> bool:
        """Whether a column has names: strings or categories."""
        column = self._frame[self._names[j]]
        return hasattr(column.dtype, "categories") or _is_text(column)

    def codes(self, j: int) -> tuple[Array, np.ndarray]:
        """Codes (n,) of the names of a column, on the device, -1 for null; and the names."""
        if j not in self._coded:
            column = self._frame[self._names[j]]
            if hasattr(column.dtype, "categories"):
                codes = column.cat.codes.fillna(-1).to_cupy()  # nulls, or -1 already
                names = column.cat.categories
            else:
                codes, names = column.factorize()
            names = names.to_pandas() if hasattr(names, "to_pandas") else names
            self._coded[j] = codes, np.asarray(names, dtype=object)
        return self._coded[j]

    def values(self, j: int) -> Array:
        """Numbers (n,) of a column, on the device, nan for null."""
        return _values(self._frame[self._names[j]])

    def _series(self, j):
        import pandas

        from gpuml._arrays.moves import to_host

        column = self._frame[self._names[j]]
        if not _is_text(column):
            return column.to_pandas().reset_index(drop=True)
        codes, names = self.codes(j)
        dtype = column.head(0).to_pandas().dtype
        values = np.asarray([*names, None], dtype=object)[to_host(codes)]  # -1 is the last one
        return pandas.Series(values, dtype=dtype)


def _is_text(column):
    """Whether a column of cuDF has strings."""
    return str(column.dtype) in TEXT


def _series_of(x):
    return [x[name] for name in x.columns] if hasattr(x, "columns") else [x]


def _are_alike(columns):
    """Whether columns without holes have one dtype of NumPy: cuDF makes an array of these."""
    dtypes = {column.dtype for column in columns}
    own = any(hasattr(dtype, "numpy_dtype") for dtype in dtypes)
    return len(dtypes) <= 1 and not own and not any(map(_has_nulls, columns))


def _has_nulls(column):
    return int(column.null_count) > 0


def _values(column):
    """A column (n,) as an array, with nan for what is missing."""
    # cuDF keeps dtypes that pandas has for numbers beside NA, and makes no array of them.
    own = getattr(column.dtype, "numpy_dtype", None)
    column = column if own is None else column.astype(own.name)
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
    """A stand-in for X where only column names are read.

    X itself, but for an array that was made of a DataFrame: then an empty one with its columns.
    """
    if id(X) not in _names:
        return X
    import pandas as pd

    dtype = str(X.dtype).rpartition(".")[2]
    return pd.DataFrame(columns=_names[id(X)][1], dtype=dtype)


def was_frame(X: Any) -> bool:
    """Whether X is an array that `from_cudf` made of a DataFrame."""
    return id(X) in _names
