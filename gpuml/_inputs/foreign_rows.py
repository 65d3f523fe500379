"""Arrays of other libraries, and on devices: checked at their place."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, is_numpy, move, namespace


def foreign_matrix(X: Array, estimator: Any, *, keep_dtype: bool = False) -> Array:
    """X as floats (unchanged with `keep_dtype`), with two axes and at least one entry."""
    xp = namespace(X)
    if X.ndim != 2:
        hint = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
            "or array.reshape(1, -1) if it contains a single sample."
        )
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead for X.\n{hint}")
    if not keep_dtype or xp.isdtype(X.dtype, "complex floating"):
        X = as_float(X, "X", xp)
    check_shape(X, estimator)
    return X


def check_shape(X: Any, estimator: Any, *, min_rows: int = 1, min_features: int = 1) -> None:
    """Raise scikit-learn's ValueError if a matrix has too few rows or columns."""
    least = {"sample": min_rows, "feature": min_features}
    for (what, needed), found in zip(least.items(), X.shape, strict=True):
        if found < needed:
            raise ValueError(
                f"Found array with {found} {what}(s) (shape={tuple(X.shape)}) while a minimum of "
                f"{needed} is required by {type(estimator).__name__}."
            )


def foreign_target(y: Array, place: Place) -> Array:
    """A target of numbers, of any library, as floats at a place."""
    if y.ndim not in (1, 2):
        raise ValueError(f"y should be a 1d or 2d array, got an array of shape {y.shape} instead.")
    if is_numpy(y):
        y = target_of_numbers(y)
    return as_float(move(y, place), "y", place.xp)


def target_of_numbers(y: np.ndarray) -> np.ndarray:
    """A target in CPU memory, with objects and strings as numbers.

    Raises
    ------
    TypeError
        For dates and times, and for objects that are no numbers.
    ValueError
        For strings that are no numbers, as scikit-learn does.
    """
    if y.dtype.kind in "mM":
        raise TypeError(
            f"y holds dates or times (dtype {y.dtype}), where numbers are needed. Convert them "
            "explicitly: (y - y[0]) / numpy.timedelta64(1, 'D') counts days."
        )
    return y.astype(np.float64) if y.dtype.kind in "OSU" else y


def as_float(x: Array, name: str, xp: Any) -> Array:
    """Real numbers as float64; float32 does not change."""
    if xp.isdtype(x.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported\n{name} has dtype {x.dtype}.")
    if x.dtype in (xp.float64, xp.float32):
        return x
    return xp.astype(x, xp.float64)
