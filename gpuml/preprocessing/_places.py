"""Shared parts of transformers: fitted attributes follow the rows, results have the set form."""

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from gpuml._arrays import HOST, Array, Place, is_array, is_foreign, move, place_of
from gpuml._sklearn import _get_output_config, check_same_namespace
from gpuml.data import cut

# Workspace of a block of rows: on a CPU it stays in the cache of a core, on a GPU it is long enough
# to hide launches.
HOST_BLOCK_BYTES = 2**20
DEVICE_BLOCK_BYTES = 2**26
SMALLEST_BLOCK_ROWS = 256

Estimator = TypeVar("Estimator")


def at_host(estimator: Estimator) -> Estimator:
    """The estimator with its fitted arrays in CPU memory: itself if they are, else a copy."""
    if not any(is_foreign(value) for value in vars(estimator).values()):
        return estimator
    copied = copy.copy(estimator)
    move_attributes(copied, HOST)
    return copied


def move_attributes(estimator: Any, place: Place) -> None:
    """Bring fitted arrays to where the next rows are; names of features are strings, and stay."""
    fitted = {k: v for k, v in vars(estimator).items() if k.endswith("_") and is_array(v)}
    fitted.pop("feature_names_in_", None)
    vars(estimator).update(
        {name: move(x, place) for name, x in fitted.items() if getattr(x, "ndim", 0) > 0}
    )


def check_library(estimator: Any, X: Any, attribute: str, method: str) -> None:
    """Refuse a mix of libraries if scikit-learn's array-API dispatch, which does so, is on."""
    if is_array(getattr(estimator, attribute)):
        check_same_namespace(X, estimator, attribute=attribute, method=method)


def wants_frame(estimator: Any) -> bool:
    """Whether `set_output` selects DataFrames."""
    return _get_output_config("transform", estimator)["dense"] != "default"


def row_blocks(X: Array, row_bytes: int) -> Iterator[slice]:
    """Runs of rows whose workspace, `row_bytes` a row, is bounded."""
    bound = HOST_BLOCK_BYTES if place_of(X).is_host else DEVICE_BLOCK_BYTES
    return cut(slice(0, X.shape[0]), max(SMALLEST_BLOCK_ROWS, bound // max(1, row_bytes)))


def column_chunks(X: Array, column_bytes: int) -> Iterator[slice]:
    """Runs of columns whose workspace, `column_bytes` a column, is bounded."""
    bound = 4 * (HOST_BLOCK_BYTES if place_of(X).is_host else DEVICE_BLOCK_BYTES)
    return cut(slice(0, X.shape[1]), max(1, bound // max(1, column_bytes)))


def host_dtype(X: Array) -> np.dtype:
    """The NumPy dtype of the name that the dtype of X has."""
    return np.dtype(str(X.dtype).rpartition(".")[2])
