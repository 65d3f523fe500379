"""How many of divided rows have each value of a column, whatever the values are.

Values are Series of pandas, so that they keep their dtypes, and None and NA are not nan.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuml._arrays import namespace, to_host

# The values of a column, and how many rows have each of them.
Counted = tuple[Any, np.ndarray]


def count_column(column: Any) -> Counted:
    """The values of a column: an array (n,), or a Series of pandas or cuDF."""
    import pandas as pd

    if hasattr(column, "to_pandas"):  # cuDF counts on its device
        found = column.value_counts(dropna=False).to_pandas()
        return pd.Series(found.index), found.to_numpy()
    if not isinstance(column, np.ndarray | pd.Series):
        xp = namespace(column)  # bools have no unique values everywhere
        column = xp.astype(column, xp.int8) if xp.isdtype(column.dtype, "bool") else column
        values, counts = map(to_host, xp.unique_counts(column))
        return _grouped(pd.Series(values), counts)
    # Whatever other categories it may have.
    if not isinstance(column, np.ndarray) and str(column.dtype) == "category":
        if column.cat.categories.dtype == "bool":  # which scikit-learn takes for numbers
            column = column.astype(np.float64)
        column = column.to_numpy(na_value=np.nan) if column.hasnans else column.to_numpy()
    # pandas would make of objects what it takes them for.
    values = pd.Series(column, dtype=None if column.dtype.kind in "US" else column.dtype)
    return _grouped(values, np.ones(len(column), dtype=np.int64))


def merged(some: Sequence[Counted], others: Sequence[Counted]) -> list[Counted]:
    """Values of columns of some rows and of others, with their counts together."""
    import pandas as pd

    return [
        _grouped(pd.concat([a, b], ignore_index=True), np.concatenate([n, m]))
        for (a, n), (b, m) in zip(some, others, strict=True)
    ]


def _grouped(values, counts) -> Counted:
    """Each value once, with the sum of its counts."""
    import pandas as pd

    dtype = values.dtype
    if dtype == "object":  # pandas takes None and NA for nan, scikit-learn does not
        values = [(_grouped, v) if v is None or v is pd.NA else v for v in values]
    counted = np.float32 if dtype == np.float16 else dtype  # which pandas does not count
    codes, found = pd.factorize(pd.Series(values, dtype=counted), use_na_sentinel=False)
    totals = np.bincount(codes, counts, len(found)).astype(np.int64)
    if dtype == "object":
        found = [v[1] if isinstance(v, tuple) and v[0] is _grouped else v for v in found]
    return pd.Series(np.asarray(found) if counted != dtype else found, dtype=dtype), totals


def counts_of(values: Any, counts: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """How often each of some categories was counted."""
    is_hole = values.isna().to_numpy()
    known = dict(zip(values[~is_hole].tolist(), counts[~is_hole].tolist(), strict=True))
    is_none = np.fromiter((value is None for value in values), bool, len(values))
    known[None] = counts[is_none].sum()
    n_holes = counts[is_hole].sum()
    if any(category is None for category in categories):
        n_holes -= known[None]
    found = [known.get(each, n_holes if each != each else 0) for each in categories.tolist()]
    return np.asarray(found, dtype=np.int64)


def holes_of(rows: Any) -> np.ndarray:
    """Mask (n, p) of None, nan and NA in a DataFrame of pandas or an array."""
    import pandas as pd

    return np.asarray(pd.isna(rows))


def rows_of_values(columns: Sequence[Counted], names: Sequence[Any] | None, dtype: Any) -> Any:
    """Few rows that have each value of each column: a DataFrame with names, an array without."""
    n_rows = max(len(values) for values, _ in columns)
    every = [values.take(np.resize(np.arange(len(values)), n_rows)) for values, _ in columns]
    if names is None:
        return np.stack([column.to_numpy() for column in every], axis=1).astype(dtype)
    import pandas as pd

    # Of Series, because pandas would take the objects of arrays for what they look like.
    series = [column.reset_index(drop=True) for column in every]
    return pd.concat(series, axis=1).set_axis(list(names), axis=1)


def named(rows: np.ndarray, names: Sequence[Any] | None) -> Any:
    """Rows as a DataFrame if columns have names."""
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))
