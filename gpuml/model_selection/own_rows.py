"""Rows that several models share, and rows of their own for models that might write to them.

Shared NumPy arrays are read-only: who writes to them gets an error. Nothing makes tables, lists and
sparse matrices read-only, so models get copies of them, unless they are known not to write.
"""

import sys
from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import is_foreign
from gpuml._sklearn import _num_samples
from gpuml.model_selection.residence import all_estimators, has_rows
from gpuml.resampling.multifit import is_known


def read_only(rows: Any) -> Any:
    """Rows that several models will read: NumPy arrays as read-only views."""
    if not isinstance(rows, np.ndarray):
        return rows
    rows = rows.view()
    rows.flags.writeable = False
    return rows


def private_rows(rows: Any, step: Any) -> Any:
    """Rows for a step: a copy if it might write to rows that others read."""
    own = private_values(rows)
    mine = own is not rows or (isinstance(rows, np.ndarray) and rows.flags.writeable)
    if mine or not hasattr(step, "get_params"):
        return own
    # Read-only arrays are copied too: not every step that works in place does so (`KMeans`).
    in_place = any(
        value is False and name.rpartition("__")[2] in ("copy", "copy_X", "copy_x")
        for name, value in step.get_params().items()
    )
    writes = in_place or (sparse.issparse(rows) and not all(map(_is_known, all_estimators(step))))
    return deepcopy(rows) if writes else rows


def private_values(values: Any) -> Any:
    """A table, a list or a column, such as a target, as an object of its own."""
    if isinstance(values, list):
        return list(values)
    library = type(values).__module__.partition(".")[0]
    if library == "polars":
        return values.clone()  # columns are shared: nobody can write to them
    if library == "pandas":
        return values.copy(deep=not _copies_on_write())
    return values


def private_params(params: Mapping[str, Any], X: Any) -> dict[str, Any]:
    """Parameters of `fit`, with copies of those that have one value per row of X."""
    n_rows = _num_samples(X)
    return {
        name: copy(value) if has_rows(value, n_rows) and not is_foreign(value) else value
        for name, value in params.items()
    }


def _copies_on_write():
    """Whether two DataFrames of pandas may share memory until one of them is written to."""
    return int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3


def _is_known(estimator):
    """Whether an estimator is known to leave its rows as they are."""
    return is_known(estimator) and not callable(getattr(estimator, "func", None))
