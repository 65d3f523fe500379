"""Rows in CPU memory: scikit-learn validates them, and errors say which columns they are about."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

FLOATS = [np.float64, np.float32]
MOST_NAMED = 5


@contextmanager
def naming_columns(estimator: Any, X: Any) -> Iterator[None]:
    """Errors about rows that have to be finite numbers name the columns that are not.

    Raises
    ------
    TypeError, ValueError
        At the start, for columns or arrays of dates and times: some DataFrames hand them out as
        numbers.
    TypeError, ValueError
        What the block raises, with the columns that it is about.
    """
    refuse_dates(X, estimator)
    try:
        yield
    except (TypeError, ValueError) as error:
        concerned = blame(X, error)
        if not concerned:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error}\n{concerned}") from error


def host_floats(X: np.ndarray) -> np.ndarray:
    """Validated rows as float64; float32 does not change."""
    if X.dtype in FLOATS:
        return X
    if X.dtype.kind == "O":  # integers beyond int64, for one
        return X.astype(np.float64)  # ValueError or TypeError for what is not a number
    if X.dtype.kind not in "fiub":
        raise ValueError(_no_numbers(X))
    return X.astype(np.float64)


def _no_numbers(X):
    return f"X must hold numbers, got dtype {X.dtype}. Convert it explicitly."


def refuse_dates(X: Any, estimator: Any) -> None:
    """Raise TypeError for columns of dates or times, which polars would hand out as numbers.

    ValueError for arrays: scikit-learn's `fit` takes them as numbers, and its `predict` does not.
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(_no_numbers(X))
    if not _may_hold_dates(X):
        return
    found = [name for name, dtype in _columns(X) if dtype.is_temporal()]
    if found:
        raise TypeError(
            f"{_named(found, 'holds', 'hold')} dates or times, and {type(estimator).__name__} "
            "needs numbers. Convert such columns explicitly, or leave them out."
        )


def _may_hold_dates(X):
    """A guess that costs little, since it is made at every call."""
    if not hasattr(X, "columns"):
        return False
    if not type(X).__module__.startswith("pandas"):
        return True
    return any(getattr(dtype, "kind", "") in ("M", "m") for dtype in set(X.dtypes))


def blame(X: Any, error: Exception) -> str:
    """Which columns an error is about, in words, by name or by number; "" for none.

    Asked after an error only, as it reads the rows.
    """
    columns = list(_columns(X))
    odd = [name for name, dtype in columns if not _holds_numbers(X, name, dtype)]
    if odd:
        them = "it" if len(odd) == 1 else "them"
        return (
            f"{_named(odd, 'is', 'are')} not numeric: drop {them}, or encode {them} with "
            "OneHotEncoder in a ColumnTransformer."
        )
    if "NaN" in str(error):
        found = _faulty_columns(X, columns, np.isnan)
        return f"{_named(found, 'has', 'have')} missing values." if found else ""
    if "X contains infinity" in str(error):
        found = _faulty_columns(X, columns, np.isinf)
        return f"{_named(found, 'has', 'have')} infinite values." if found else ""
    return ""


def _faulty_columns(X, columns, is_faulty):
    """Names of a DataFrame's columns, or numbers of an array's, with a value that is faulty."""
    if columns:
        return [name for name, _ in columns if _is_faulty(X, name, is_faulty)]
    if sparse.issparse(X):
        X = X.tocoo()
        return np.unique(X.col[is_faulty(X.data)]).tolist()
    try:
        X = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):  # None among numbers, say
        return []
    return np.flatnonzero(is_faulty(X).any(axis=0)).tolist() if X.ndim == 2 else []


def _columns(X):
    """Names and types of the columns of a DataFrame; none of what is none."""
    import narwhals.stable.v2 as nw

    if not nw.dependencies.is_into_dataframe(X):
        return []
    try:
        return list(nw.from_native(X).schema.items())
    except (TypeError, ValueError):  # two columns of one name, say: scikit-learn has words for that
        return []


def _holds_numbers(X, name, dtype):
    import narwhals.stable.v2 as nw

    if dtype.is_numeric() or dtype in (nw.Boolean, nw.Unknown):
        return True
    try:  # strings and categories may be numbers all the same
        np.asarray(nw.from_native(X).get_column(name).to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _is_faulty(X, name, is_faulty):
    import narwhals.stable.v2 as nw

    column = nw.from_native(X).get_column(name)
    if is_faulty is np.isnan and column.null_count() > 0:
        return True
    return column.dtype.is_float() and bool(is_faulty(column.drop_nulls().to_numpy()).any())


def _named(names, one, several):
    """The start of a sentence: Column 'a' holds, or Columns 'a', 'b' hold; not more than five."""
    text = ", ".join(repr(name) for name in names[:MOST_NAMED])
    text += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"Column {text} {one}" if len(names) == 1 else f"Columns {text} {several}"


def named_columns(estimator: Any, faulty: np.ndarray) -> str:
    """Columns (given by a mask) as `estimator` knows them, for an error; "" for none."""
    names = getattr(estimator, "feature_names_in_", None)
    found: list[Any] = np.flatnonzero(faulty).tolist()
    if not found:
        return ""
    if names is not None and len(names) == len(faulty):
        found = [str(names[j]) for j in found]
    return f"\n{_named(found, 'has', 'have')} such values."
