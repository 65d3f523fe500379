"""Missing values among text: of DataFrames they become nan, of labels they are refused."""

from typing import Any

import numpy as np

from gpuml._arrays.frames import in_pandas
from gpuml._sklearn import is_pandas_na, is_scalar_nan


def with_nan(X: Any, *, nulls: bool = True) -> Any:
    """A DataFrame with nan for missing values in columns that are not numeric; others unchanged.

    Nulls of polars and Arrow among text become None in NumPy, which counts as a value of its own,
    and pandas.NA, as of strings and of categories of strings, is refused. What has such holes
    becomes a DataFrame of pandas, with the same names of columns; pandas objects keep what they
    hold. Without `nulls`, those of polars and Arrow stay.
    """
    library = type(X).__module__.partition(".")[0]
    read = ("pandas", "polars", "pyarrow") if nulls else ("pandas",)
    if not hasattr(X, "columns") or library not in read:
        return X
    if library == "pandas":
        return _of_pandas(X)
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X)
    plain = all(dtype.is_numeric() or dtype.is_temporal() for dtype in frame.schema.values())
    if plain or not any(frame.get_column(name).null_count() for name in frame.columns):
        return X
    return in_pandas({name: _values(frame.get_column(name)) for name in frame.columns})


def refuse_missing_labels(y: Any) -> None:
    """Raise ValueError if None, nan or pandas.NA is among labels in CPU memory.

    scikit-learn compares or sorts such labels, and tells what Python cannot compare; in a list of
    strings, nan becomes the class "nan".
    """
    library = type(y).__module__.partition(".")[0]
    if isinstance(y, list | tuple):
        values = np.array(y, dtype=object)
    elif isinstance(y, np.ndarray) or library in ("pandas", "polars", "pyarrow"):
        values = np.asarray(y)
    else:
        return
    if values.dtype != object or values.ndim != 1:
        return
    kinds = set(map(type, values.tolist()))
    if all(issubclass(kind, str | int | np.integer) for kind in kinds):
        return
    missing = [i for i, label in enumerate(values) if is_missing(label)]
    if missing:
        raise ValueError(
            f"Input y contains NaN or None: {len(missing)} of {len(values)} labels are missing, "
            f"the first in row {missing[0]}. Drop these rows: keep = pandas.notna(y), then X[keep] "
            "and y[keep]."
        )


def is_missing(label: Any) -> bool:
    """Whether a label is None, nan or pandas.NA."""
    return label is None or is_pandas_na(label) or is_scalar_nan(label)


def _of_pandas(X):
    found = X
    for j, dtype in enumerate(X.dtypes):
        # Of categories, what these are of: strings of Arrow, say.
        held = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        if dtype.kind not in "OU" or isinstance(held, np.dtype):
            continue
        column = X.iloc[:, j]
        is_hole = column.isna().to_numpy()
        if is_hole.any():
            found = found.copy(deep=False) if found is X else found
            found.isetitem(j, column.astype(object).where(~is_hole, np.nan))
    return found


def _values(column):
    """A column as NumPy has it, nan for null."""
    values = column.to_numpy()
    is_hole = column.is_null().to_numpy()
    if not is_hole.any() or values.dtype.kind == "f":
        return values
    if column.dtype.is_numeric():
        return np.where(is_hole, np.nan, column.fill_null(0).to_numpy())
    return np.where(is_hole, np.nan, values.astype(object))
