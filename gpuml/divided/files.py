"""Rows in files, for searches and fits that read them pass by pass."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuml.divided.stored import StoredRows, stored_rows
from gpuml.reading.arrow import csv_table, parquet_table
from gpuml.reading.tables import array_table

__all__ = ["StoredRows", "read_array", "read_csv", "read_parquet"]


def read_parquet(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    memory: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> StoredRows:
    """Open Parquet files as rows that may be larger than memory.

    The call reads only the schemas. Pass the rows as X to searches and linear models, and names of
    columns as y and `sample_weight`. They read the columns that they need, one row group after the
    other, and the next ones while they compute. Least squares takes one pass over the files, and
    losses such as that of `LogisticRegression` one pass per step. Rows that fit into `memory` stay
    there after the first pass. A pipeline whose first step encodes strings or fills missing values
    takes one more pass.

    Parameters
    ----------
    path : str, path, or list of them
        Files, folders of them, patterns with ``*``, or URLs that fsspec knows, such as
        ``s3://bucket/folder``. The columns to use must be alike in all files.
    columns : sequence of str, default=None
        Names of the columns to use, including y and weights; None is all columns, except the index
        of a DataFrame that pandas or Dask wrote.
    memory : int or str, default=None
        The most bytes for rows that are read ahead or stay in memory, such as "4GB"; None is half
        of the memory that is free now. y and weights always stay in memory.
    storage_options : mapping, default=None
        For the file system of an URL.

    Returns
    -------
    rows : StoredRows

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the files lack a column of `columns`, differ in columns to use, have two of one name, or
        are none of Parquet. Fits raise it for nulls, and for features that are not numeric, unless
        a first step fills or encodes them.
    ImportError
        If pyarrow is not installed, or fsspec for an URL.

    Warns
    -----
    UserWarning
        If folders are named after values of columns (``year=2024``): such columns are not read.

    See Also
    --------
    read_csv : The same for a CSV file.
    read_array : The same for a memory map, Zarr array or HDF5 dataset.

    Examples
    --------
    >>> import os, tempfile
    >>> import gpuml, numpy as np, polars
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> frame = polars.DataFrame({name: rng.normal(size=300) for name in "abc"})
    >>> frame = frame.with_columns(price=polars.col("a") - polars.col("b"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.write_parquet(os.path.join(folder, "prices.parquet"))
    ...     rows = gpuml.read_parquet(folder, memory="1GB")
    ...     search = GridSearchCV(Ridge(), {"alpha": [0.01, 1.0]}).fit(rows, "price")
    >>> search.best_params_
    {'alpha': 0.01}
    """
    return stored_rows(parquet_table(path, storage_options, columns), columns, memory)


def read_csv(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    memory: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> StoredRows:
    r"""Open a CSV file as rows that may be larger than memory.

    As `read_parquet`. The file is read once to count its rows, and parsed again in each pass over
    rows that do not stay in memory: where there are several, convert it to Parquet before.

    Parameters
    ----------
    path : str or path
        A file with a line of names, or an URL that fsspec knows.
    columns, memory, storage_options
        As of `read_parquet`.

    Returns
    -------
    rows : StoredRows

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        As of `read_parquet`; a ValueError also for lines that pyarrow cannot parse.

    Examples
    --------
    >>> import os, tempfile
    >>> import gpuml
    >>> from gpuml.preprocessing import StandardScaler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\n0,1\n2,3\n")
    ...     StandardScaler().fit(gpuml.read_csv(path)).mean_
    array([1., 2.])
    """
    return stored_rows(csv_table(path, storage_options), columns, memory)


def read_array(array: Any, *, memory: int | str | None = None) -> StoredRows:
    """Open an array in a file as rows that may be larger than memory.

    It works like `read_parquet`, for a memory map (``np.load(path, mmap_mode="r")``), a Zarr array
    (``zarr.open_array(path, mode="r")``), or a dataset of h5py. The names of its columns are their
    numbers, as strings.

    Parameters
    ----------
    array : array-like of shape (n, p)
        Any object with ``shape``, ``dtype`` and slices of rows ``array[i:j]``.
    memory : int or str, default=None
        As of `read_parquet`.

    Returns
    -------
    rows : StoredRows

    Raises
    ------
    TypeError, ValueError
        If `array` is not a matrix of numbers.

    Examples
    --------
    >>> import gpuml, numpy as np
    >>> rows = gpuml.read_array(np.eye(3))
    >>> rows.shape, rows.drop("0")[:2]
    ((3, 3), array([[0., 0.],
           [1., 0.]]))
    """
    if not (hasattr(array, "shape") and hasattr(array, "dtype")):
        raise TypeError(
            f"read_array takes an open array, got {type(array).__name__}. Of a file, pass "
            'np.load(path, mmap_mode="r"); of a list, np.asarray(values). Pass a DataFrame to fit '
            "as it is, which keeps the names of its columns."
        )
    return stored_rows(array_table(array, f"an array of shape {array.shape}"), None, memory)
