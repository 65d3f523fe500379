"""Encoders, imputers and a scaler by quantiles, of rows on workers, fitted column by column.

The class is fitted in this process to a few rows that have every kind of value, so that it raises
its errors and sets its attributes. What depends on all rows comes from workers.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import clone

from gpuml._sklearn import is_pandas_na
from gpuml.data import NeedsAllRows
from gpuml.divided.counts import (
    Counted,
    count_column,
    counts_of,
    holes_of,
    merged,
    named,
    rows_of_values,
)
from gpuml.divided.quantiles import divided_quantiles, sorted_column
from gpuml.impute import MissingIndicator
from gpuml_dask.rows import blocks
from gpuml_dask.rows.inputs import check_matrix
from gpuml_dask.rows.placement import Table
from gpuml_dask.rows.sending import gpu_resources
from gpuml_dask.sums.divided import repeated
from gpuml_dask.sums.holders import Futures, TaskHolders
from gpuml_dask.waiting import in_touch

Find = Callable[[Any, TaskHolders, Table], Any]


def fit_columns(estimator: Any, table: Table, find: Find, label: str) -> dict[str, Any]:
    """Fitted attributes of an estimator, by one of the functions below.

    `NeedsAllRows` is raised if all rows have to be in one place.
    """
    check_matrix(table.X.rows.facts)
    if not table.shape[1]:
        raise NeedsAllRows("There are no columns.")
    futures = Futures()
    client, on_gpu = table.client, table.X.rows.facts.on_gpu
    resources = (gpu_resources(client) if on_gpu else None) or {}

    def attempt() -> Any:
        holders = TaskHolders(client, table.blocks("X"), label, resources, futures=futures)
        return find(clone(estimator), holders, table)

    try:
        with in_touch(client):
            model = repeated(table, attempt)
    finally:
        futures.release()
    return fitted_attributes(model)


def fitted_attributes(model: Any) -> dict[str, Any]:
    return {n: v for n, v in vars(model).items() if n not in model.get_params(deep=False)}


# ---------------------------------------------------------------- encoders


def encoded(encoder: Any, holders: TaskHolders, table: Table) -> Any:
    """An encoder, fitted to the values that each column has on any worker."""
    columns: list[Counted] = holders.total(_counts, combine=merged)

    def count(j: int, categories: np.ndarray) -> np.ndarray:
        found = counts_of(*columns[j], categories)
        if encoder.categories == "auto" and found.sum() != table.n_rows:
            raise NeedsAllRows(
                f"Categories of column {j} are not those that were counted: are dates missing?"
            )
        return found

    few = rows_of_values(columns, table.columns_names, table.dtype)
    encoder._fit_counted(few, table.n_rows, count)
    return encoder


def _counts(block) -> list[Counted]:
    block = _plain(block)
    cells = block.iloc if blocks.is_frame(block) else block
    return [count_column(cells[:, j]) for j in range(block.shape[1])]


# ---------------------------------------------------------------- imputers


def imputed(imputer: Any, holders: TaskHolders, table: Table) -> Any:
    """An imputer, fitted to a few rows with and without a value in each column."""
    if callable(imputer.strategy):
        raise NeedsAllRows("A function of the user's is given all values.")
    few = holders.total(_few, imputer, combine=partial(_fewer, imputer))
    found = imputer.fit(few).statistics_  # or it says what is wrong with the rows
    if imputer.strategy == "most_frequent":
        dtype = object if blocks.is_frame(few) else few.dtype
        for j, (values, counts) in enumerate(holders.total(_counts, combine=merged)):
            _set_mode(imputer, j, values, counts, dtype)
    elif imputer.strategy != "constant":
        numbers = _floats(holders, table)[0].map(_with_mask, imputer)
        seen, statistic = (_means if imputer.strategy == "mean" else _medians)(numbers)
        imputer.statistics_ = np.where(seen > 0, statistic, found).astype(found.dtype)
    return imputer


def _set_mode(imputer, j, values, counts, dtype):
    """Set the most frequent value of a column that has any."""
    if not isinstance(values.dtype, np.dtype):
        values = values.astype(object).where(values.notna(), np.nan)
    column = values.to_numpy()[:, None].astype(dtype)
    there = ~_missing(column, imputer)[:, 0]
    if there.any():
        # The class itself chooses one of those that are equally frequent.
        often = column[there & (counts == counts[there].max())]
        mode, few = clone(imputer).fit(often).statistics_[0], imputer.statistics_[j]
        # Categories of bools were counted as numbers.
        imputer.statistics_[j] = bool(mode) if type(few) is bool and mode in (0, 1) else mode


def scaled(scaler: Any, holders: TaskHolders, table: Table) -> Any:
    """A scaler by quantiles, from those of all rows."""
    numbers, dtype = _floats(holders, table)
    few = numbers.total(_few, scaler, combine=partial(_fewer, scaler))
    scaler.fit(named(few, table.columns_names))  # says what is wrong with the rows
    seen, quantiles = _quantiles(numbers.map(_with_mask, scaler))
    scaler._fit_quantiles(quantiles, seen)
    if scaler.with_centering:
        scaler.center_ = scaler.center_.astype(dtype)
    return scaler


# ---------------------------------------------------------------- what is asked of the workers


def _floats(holders, table):
    """Holders of blocks as arrays of floats, and their dtype."""
    dtype = np.float32 if table.dtype == np.float32 else np.float64
    return holders.map(_as_floats, dtype), dtype


def _as_floats(block, dtype):
    return blocks.as_rows(_plain(block), dtype)


def _few(block, step):
    """A few rows of a block in CPU memory; of each column one value, and one missing value."""
    block = _plain(block)
    missing = _missing(block, step, getattr(step, "strategy", None) in ("mean", "median"))
    xp = array_namespace(missing)
    masks = [xp.astype(mask, xp.int8) for mask in (missing, ~missing)]
    first = np.unique([blocks.host_copy(xp.argmax(mask, axis=0)) for mask in masks])
    if not blocks.is_frame(block):
        return blocks.host_copy(block[first, :])
    rows = block.iloc[first]
    return rows.to_pandas() if hasattr(rows, "to_pandas") else rows


def _fewer(step, some, others):
    return _few(blocks.join(some, others), step)


def _missing(X, step, numbers=False):
    """Mask (n, p) of what is a missing value to an imputer or scaler; `numbers` are wanted."""
    missing_values = getattr(step, "missing_values", np.nan)
    if numbers:
        with suppress(ValueError):  # of text, of which the class says what is wrong
            X = blocks.as_rows(X, np.float64)
    if is_pandas_na(missing_values) and not hasattr(X, "__cuda_array_interface__"):
        return holes_of(X)
    indicator = MissingIndicator(missing_values=missing_values, features="all", sparse=False)
    try:
        return indicator.fit_transform(X)
    except ValueError:
        clone(step).fit(X)  # says what is wrong with the rows
        raise


def _with_mask(X, step):
    return X, ~_missing(X, step)


def _means(numbers):
    total, seen = numbers.total(_sums)
    return seen, total / np.maximum(seen, 1)


def _sums(numbers):
    X, there = numbers
    xp = array_namespace(X)
    values = xp.astype(xp.where(there, X, xp.zeros_like(X)), xp.float64)
    return xp.stack([xp.sum(values, axis=0), xp.sum(xp.astype(there, xp.float64), axis=0)])


def _quantiles(numbers):
    """How many values columns have, and a function of levels that finds quantiles (q, p)."""
    columns = numbers.map(_sorted_columns)
    seen = columns.total(_lengths)
    return seen, partial(divided_quantiles, columns, seen)


def _medians(numbers):
    seen, quantiles = _quantiles(numbers)
    return seen, quantiles([0.5])[0]


def _sorted_columns(numbers):
    X, there = numbers
    return [sorted_column(X[:, j][there[:, j]]) for j in range(X.shape[1])]


def _lengths(columns):
    return np.asarray([len(column) for column in columns])


def _plain(block):
    """A DataFrame of pandas or cuDF, or an array."""
    if blocks.is_sparse(block):
        raise NeedsAllRows("Sparse rows are fitted in one place.")
    if not blocks.is_frame(block):
        return blocks.as_rows(block)
    return block.to_pandas() if hasattr(block, "lazy") else block  # of polars
