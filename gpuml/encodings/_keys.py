"""Keys in square brackets: what they mean for a matrix of two dimensions."""

import operator
from typing import Any

import numpy as np

from gpuml._arrays import Array


def two_keys(key: Any) -> tuple[Any, Any]:
    """What is asked for of rows and of columns; everything where nothing is said."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(k is None for k in keys):
        raise IndexError("Packed codes have two dimensions; np.newaxis cannot add one.")
    if any(k is Ellipsis for k in keys):
        place = next(i for i, k in enumerate(keys) if k is Ellipsis)
        others = len(keys) - 1
        keys = keys[:place] + (slice(None),) * (2 - others) + keys[place + 1 :]
    if len(keys) > 2:
        raise IndexError(f"too many indices: packed codes are 2-dimensional, got {len(keys)}.")
    return keys[0] if keys else slice(None), keys[1] if len(keys) > 1 else slice(None)


def is_number(key: Any) -> bool:
    """Whether a single row or column is meant."""
    if isinstance(key, bool | np.bool_):
        raise IndexError("A single bool is no index of packed codes.")
    return isinstance(key, int | np.integer) or (
        isinstance(key, np.ndarray) and key.ndim == 0 and key.dtype.kind in "iu"
    )


def one(position: Any, n: int) -> slice:
    """A single row or column as a slice; IndexError where there is none."""
    position = range(n)[operator.index(position)]
    return slice(position, position + 1)


def is_list(key: Any) -> bool:
    """Whether rows or columns are listed, by number or by a mask."""
    return not isinstance(key, slice) and not is_number(key)


def as_index(key: Any) -> Array:
    """A list of rows or columns as a 1-D array of integers or bools."""
    index = key if hasattr(key, "ndim") else np.asarray(key)
    if index.ndim != 1:
        raise IndexError(
            f"Rows and columns are slices, or lists of one dimension, got {index.ndim} dimensions."
        )
    if index.dtype.kind not in "iub":
        if index.shape[0]:
            raise IndexError(
                f"Lists of rows and columns hold integers or bools, got {index.dtype}."
            )
        index = index.astype(np.intp)
    return index
