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

    Nothing is read but schemas. Searches and linear models take the rows as X, and names of columns
    as y and `sample_weight`; they read the columns that they need, row group after row group, the
    next ones while they work. Least squares takes one pass over the file; losses such as those of
    `LogisticRegression` take one for each step. Rows that `memory` has room for stay in memory
    after the first pass. Strings and missing values take one more, in searches over pipelines whose
    first step encodes or fills them.

    Parameters
    ----------
    path : str, path, or list of them
        Files with the same columns, folders of them, patterns with ``*``, or URLs that fsspec
        knows, such as ``s3://bucket/folder``.
    columns : sequence of str, default=None
        Columns that take part, y and weights among them; None is all.
    memory : int or str, default=None
        Bytes for what is read ahead and for rows that stay, such as "4GB"; None is half of the
        memory that is free now. y and weights always stay.
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
        For columns that the files do not have, and files with different columns. Fits raise it for
        nulls, and for features that are no numbers, unless a first step fills or encodes them.
    ImportError
        If pyarrow is not installed, or fsspec for an URL.

    See Also
    --------
    read_csv : The same of a file of CSV.
    read_array : The same of a memory map, or an array of Zarr or HDF5.

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
    return stored_rows(parquet_table(path, storage_options), columns, memory)


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
    """Take a matrix in a file as rows that may be larger than memory.

    As `read_parquet`, of what is sliced: a memory map (``np.load(path, mmap_mode="r")``), an array
    of Zarr (``zarr.open_array(path, mode="r")``), or a dataset of h5py. Its columns go by their
    numbers, as strings.

    Parameters
    ----------
    array : array-like of shape (n, p)
        With ``shape``, ``dtype`` and rows ``array[i:j]``.
    memory : int or str, default=None
        As of `read_parquet`.

    Returns
    -------
    rows : StoredRows

    Raises
    ------
    TypeError, ValueError
        For what is no matrix of numbers.

    Examples
    --------
    >>> import gpuml, numpy as np
    >>> rows = gpuml.read_array(np.eye(3))
    >>> rows.shape, rows.drop("0")[:2]
    ((3, 3), array([[0., 0.],
           [1., 0.]]))
    """
    return stored_rows(array_table(array, f"an array of shape {array.shape}"), None, memory)
