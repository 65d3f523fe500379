"""Columns of DataFrames of polars and Arrow as numbers or codes: no row becomes a string."""

from typing import Any

import numpy as np

# Of dtypes that numbers and categories have; those of other columns are "M".
KINDS = {"Float64": "f", "Float32": "f", "Boolean": "b"}
NAMES = ("String", "Categorical", "Enum")


class FrameColumn:
    """A column of a DataFrame of polars or Arrow.

    Attributes
    ----------
    series : narwhals.Series
    """

    def __init__(self, X: Any, j: int):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True)
        self.series = frame.get_column(frame.columns[j])
        self.dtype = Kind(self.series.dtype)

    @property
    def has_nulls(self) -> bool:
        """Whether values are missing."""
        return int(self.series.null_count()) > 0

    def numbers(self) -> np.ndarray:
        """Its values (n,) as float64, nan for null."""
        import narwhals.stable.v2 as nw

        return self.series.cast(nw.Float64).fill_null(float("nan")).to_numpy()

    def values(self) -> np.ndarray:
        """Numbers or truths (n,) as scikit-learn is given them."""
        return self.numbers() if self.has_nulls else self.series.to_numpy()

    def codes(self) -> tuple[np.ndarray, list[str]]:
        """Numbers (n,) of its names, -1 for null, and the names in the order of these numbers."""
        import narwhals.stable.v2 as nw

        is_polars = type(self.series.to_native()).__module__.startswith("polars")
        if is_polars:
            coded = self.series if self.dtype.is_coded else self.series.cast(nw.Categorical)
            codes, used, names = _of_polars(coded.to_native())
        else:
            codes, used, names = _of_arrow(self.series.to_native(), self.dtype.is_coded)
        place = np.full(int(used.max(initial=-1)) + 2, -1, dtype=np.int64)  # of -1 the last one
        place[used] = np.arange(len(used))
        return place[codes], names

    def n_levels(self) -> int:
        """The number of values, without null."""
        return int(self.series.drop_nulls().n_unique())


class Kind:
    """The dtype of a `FrameColumn`, with NumPy's attributes."""

    def __init__(self, dtype: Any):
        name = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
        self.name, self.is_coded = name, name in NAMES[1:]
        if name in NAMES:
            self.kind = "O"
        elif dtype.is_integer():
            self.kind = "u" if name.startswith("U") else "i"
        else:
            self.kind = KINDS.get(name, "M")

    def __str__(self) -> str:
        return self.name


def _of_polars(series):
    """Numbers (n,) of the names of rows, those in use (k,), and their names."""
    used = series.drop_nulls().unique()
    codes = series.to_physical().cast(int).fill_null(-1).to_numpy()
    return codes, used.to_physical().cast(int).to_numpy(), used.cast(str).to_list()


def _of_arrow(column, is_coded):
    """The same of a column of Arrow."""
    column = column if is_coded else column.dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    codes = column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes[codes >= 0]))
    return codes, used, column.dictionary.take(used).to_pylist()
