"""Validation of user input for estimators: arrays, or a clear error.

What is in CPU memory goes through scikit-learn's own `validate_data`. Arrays of another library, or
on a device, are checked here, where they are, with the same types of error.
"""

import warnings
from contextlib import contextmanager
from dataclasses import replace
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.frames import header_of, was_frame
from gpuml._arrays.labels import Encoded, encode
from gpuml._arrays.ops import all_finite, any_true
from gpuml._inputs.foreign_rows import as_float, foreign_matrix, foreign_target, target_of_numbers
from gpuml._inputs.host_rows import FLOATS, host_floats, named_columns, naming_columns
from gpuml._inputs.nulls import refuse_missing_labels
from gpuml._inputs.output import register
from gpuml._sklearn import _check_feature_names, _check_n_features, _check_sample_weight, _check_y
from gpuml.data import Batch
from gpuml.exceptions import level_of_user

# Code that validates input may need output as cuDF DataFrames.
register()


class FitData(NamedTuple):
    """Checked input of `fit`, all in the library and on the device of X."""

    X: Array
    y: Array
    weight: Array | None


class ClassData(NamedTuple):
    """Checked input of a classifier's `fit`: as `FitData`, with the original labels."""

    X: Array
    labels: Encoded
    weight: Array | None


@contextmanager
def unchanged_on_error(estimator: Any):
    """Whatever was fitted before stays as it was if the block fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def check_fit(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    finite_X: bool = True,
) -> FitData:
    """Check what was passed to `fit`; sets `n_features_in_` and `feature_names_in_`.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    X : array-like (n, p)
    y : array-like (n,) or (n, t)
    sample_weight : array-like (n,), number or None
    finite_X : bool, default=True
        Whether to look for nan and inf in X here. A solver that notices them for free passes
        False and calls `check_finite` when it does.

    Raises
    ------
    ValueError
        Wrong number of axes, no rows or columns, lengths that differ, complex, nan or inf values,
        weights that are negative or all zero.
    TypeError
        Sparse X.
    """
    y = as_array(y)
    require_target(estimator, y)
    X = check_rows(estimator, X, reset=True, finite_X=finite_X)
    y = _numeric_target(estimator, y, X)
    return FitData(X, y, check_weight(sample_weight, X))


def require_target(estimator: Any, y: Any) -> None:
    """Raise scikit-learn's ValueError if there is no target."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )


def finite_target(estimator: Any, y: Any) -> Array:
    """Numbers or labels as an array, where they are; ValueError if any is missing or infinite."""
    require_target(estimator, y)
    refuse_missing_labels(y)
    y = as_array(y)
    y = y if is_array(y) else np.asarray(y)
    check_finite(y, "y", estimator)
    return y


def _numeric_target(estimator, y, X):
    """A target of numbers where checked rows are."""
    _refuse_sparse_target(y)
    of_objects = getattr(getattr(y, "dtype", None), "kind", "O") == "O"
    on_device = is_foreign(X)
    if on_device:
        y = foreign_target(y if is_array(y) else np.asarray(y), place_of(X))
    elif not _needs_no_change(y, finite=True):
        y = move(y, place_of(X)) if is_foreign(y) else y
        y = target_of_numbers(_check_y(y, multi_output=True, y_numeric=True, estimator=estimator))
    check_consistent_length(X, y)
    if of_objects or on_device:
        check_finite(y, "y", estimator)  # None is no number, and validation lets it pass
    return y


def _refuse_sparse_target(y):
    if sparse.issparse(y):
        raise TypeError(
            "Sparse data was passed for y, but dense data is required. Use y.toarray()."
        )


def flat_target(y: Array) -> Array:
    """A target of one column as a vector, with scikit-learn's warning; others unchanged."""
    if y.ndim != 2 or y.shape[1] != 1:
        return y
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y "
        "to (n_samples, ), for example using ravel().",
        DataConversionWarning,
        stacklevel=level_of_user(),
    )
    return namespace(y).reshape(y, (-1,))


def check_classify(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> ClassData:
    """Check what was passed to `fit` of a classifier; sets `n_features_in_` and names of features.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    X : array-like (n, p)
    y : array-like (n,)
        Labels: numbers, strings or bools, in CPU memory or on a device.
    sample_weight : array-like (n,), number or None

    Raises
    ------
    ValueError
        As for `check_fit`, and for a target that does not hold labels.
    TypeError
        Sparse X or y.
    """
    y = as_array(y)
    require_target(estimator, y)
    _refuse_sparse_target(y)
    refuse_missing_labels(y)
    X = check_rows(estimator, X, reset=True)
    if _are_plain_labels(y):
        check_consistent_length(X, y)
        return ClassData(X, encode(y), check_weight(sample_weight, X))
    if not (is_foreign(X) or is_foreign(y)):
        if np.isscalar(y) or getattr(y, "shape", None) == ():
            raise ValueError("y should be a 1d array, got an array of shape () instead.")
        y = _check_y(y, multi_output=True, estimator=estimator)
    y = _check_labels(y)
    check_consistent_length(X, y)
    labels = encode(y)
    labels = replace(labels, classes=as_classes(labels.classes, estimator))
    return ClassData(X, labels, check_weight(sample_weight, X))


def as_classes(labels: Array, estimator: Any) -> Array:
    """Classes of strings as objects or text, as scikit-learn's class has them."""
    if not is_foreign(labels) and getattr(estimator, "_classes_as_text", False):
        # Of the classes alone, whatever y has room for.
        return np.asarray(labels.tolist()) if labels.dtype.kind in "OU" else labels
    return labels


def _are_plain_labels(y):
    """Whether scikit-learn's validation finds nothing in labels: few integers, or bools.

    To find that out takes it as long as a small fit takes.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.size == 0 or y.dtype.kind not in "iub":
        return False
    # It warns of more classes than half of the samples.
    return y.dtype.kind == "b" or int(y.max()) - int(y.min()) < y.size // 2


def _check_labels(y):
    """Labels as a 1-D array; floats that are no labels are refused as scikit-learn does."""
    if not is_foreign(y):
        y = column_or_1d(np.asarray(y), warn=True)
        check_classification_targets(y)
        return y
    xp = namespace(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = xp.reshape(y, (-1,))
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    if xp.isdtype(y.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported\ny has dtype {y.dtype}.")
    if xp.isdtype(y.dtype, "real floating"):
        if not all_finite(y, xp):
            raise ValueError("Input y contains NaN or infinity.")
        if any_true(y != xp.round(y), xp):
            raise ValueError(
                "Unknown label type: continuous. Maybe you are trying to fit a classifier, which "
                "expects discrete classes on a regression target with continuous values."
            )
    return y


def check_predict(estimator: Any, X: Any) -> Array:
    """Check what was passed to `predict`, and its number and names of features."""
    return check_rows(estimator, X, reset=False)


def check_rows(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    allow_nan: bool = False,
    finite_X: bool = True,
    keep_dtype: bool = False,
    dtype: Any = "numeric",
) -> Array:
    """Check rows without a target, as transformers are given them.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    X : array-like (n, p)
        Of data in CPU memory, what scikit-learn's own validation makes of it comes back.
    reset : bool
        Whether `n_features_in_` and the names of features are set (in `fit`) or checked.
    allow_nan : bool, default=False
        Whether nan stands for a missing value. inf is refused either way.
    finite_X : bool, default=True
        Whether to look for such values here. Who notices them for free passes False and calls
        `check_finite` then.
    keep_dtype : bool, default=False
        Whether integers and bools stay what they are; otherwise they become float64.
    dtype : "numeric" or list of dtypes, default="numeric"
        Of rows in CPU memory, as scikit-learn's validation takes it. An estimator's attribute
        `_numeric_strings` says where "numeric" allows strings of numbers, as scikit-learn's class
        does: "nowhere" (the default), in "fit", or "everywhere".

    Raises
    ------
    ValueError
        Wrong number of axes, no rows or columns, complex values, nan or inf, or other features
        than in `fit`.
    """
    X = as_array(X)
    if _needs_no_change(X, finite_X) and X.ndim == 2 and features_fit(estimator, X, reset):
        return X
    if not is_foreign(X):
        refuse_sparse_of_gpu(estimator, X)
        finite = "allow-nan" if allow_nan and finite_X else finite_X
        kept = keep_dtype and isinstance(X, np.ndarray) and X.dtype.kind in "iub"
        if dtype == "numeric" and not kept:
            dtype = _of_strings_too(estimator, X, reset)
        with naming_columns(estimator, X):
            X = validate_data(estimator, X, reset=reset, ensure_all_finite=finite, dtype=dtype)
            return X if keep_dtype else host_floats(X)
    given, X = X, foreign_matrix(X, estimator, keep_dtype=keep_dtype)
    if finite_X:
        check_finite(X, "X", estimator, allow_nan=allow_nan)
    _check_features(estimator, given, reset=reset)
    return X


def _of_strings_too(estimator, X, reset):
    where = getattr(estimator, "_numeric_strings", "nowhere")
    if where not in ("everywhere", "fit" if reset else ""):
        return "numeric"
    # Of polars' numbers scikit-learn does not see that they are float32 already.
    dtypes = getattr(X, "dtypes", None)
    numbers = isinstance(dtypes, list) and all(each.is_numeric() for each in dtypes)
    return "numeric" if numbers else FLOATS


def check_images(
    estimator: Any, X: Array, n_columns: int, *, allow_nan: bool = False, keep_dtype: bool = False
) -> Array:
    """Check the input of `inverse_transform`, in the form that `transform` returns."""
    X = foreign_matrix(X, estimator, keep_dtype=keep_dtype)
    check_finite(X, "X", estimator, allow_nan=allow_nan)
    if X.shape[1] != n_columns:
        raise ValueError(
            f"X has {X.shape[1]} columns, but {type(estimator).__name__} gives {n_columns} and "
            "inverts as many."
        )
    return X


def check_weight(sample_weight: Any, X: Array, *, signed: bool = False) -> Array | None:
    """Weights (n,) of checked rows, in their library and dtype; if `signed`, of any sign."""
    if sample_weight is None:
        return None
    sample_weight, place = as_array(sample_weight), place_of(X)
    if is_foreign(X) or signed:
        return _check_weight(sample_weight, X, place, signed)
    if is_foreign(sample_weight):
        sample_weight = move(sample_weight, place)
    if isinstance(sample_weight, Number):  # of which scikit-learn accepts nan and inf
        sample_weight = np.full(X.shape[0], sample_weight)
    return _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)


def check_finite(x: Array, name: str, estimator: Any, *, allow_nan: bool = False) -> None:
    """Raise scikit-learn's ValueError if an array holds inf, or nan if that is not allowed."""
    xp = namespace(x)
    if not xp.isdtype(x.dtype, "real floating") or _is_fine(x, xp, allow_nan):
        return
    if not allow_nan and any_true(xp.isnan(x), xp):
        what = "NaN"
    else:
        what = f"infinity or a value too large for {x.dtype!r}"
    unwanted = "infinite" if allow_nan else "missing or infinite"
    raise ValueError(
        f"Input {name} contains {what}.\n{type(estimator).__name__} does not accept {unwanted} "
        "values. Drop such rows, or impute them in a Pipeline step before it."
        f"{_columns_at_fault(x, name, estimator, xp, allow_nan)}"
    )


def _columns_at_fault(x, name, estimator, xp, allow_nan):
    if name != "X" or x.ndim != 2:
        return ""
    fine = ~xp.isinf(x) if allow_nan else xp.isfinite(x)
    return named_columns(estimator, ~to_host(xp.all(fine, axis=0)))


def refuse_sparse_of_gpu(estimator: Any, X: Any) -> None:
    """Raise TypeError for sparse rows of a GPU, where an estimator takes dense ones."""
    if is_cupyx_sparse(X):
        raise TypeError(
            f"Sparse data on a GPU was passed for X, but {type(estimator).__name__} takes only "
            "dense data there. Use X.toarray(), or X.get() for sparse data in CPU memory."
        )


def check_rows_finite(batch: Batch, estimator: Any) -> None:
    """Raise scikit-learn's ValueError if X or the weights of a batch, divided or not, are not."""
    if batch.holders is not None:
        batch.holders.each(_check_piece_finite, estimator)
        return
    check_finite(batch.X, "X", estimator)
    if batch.weight is not None:
        check_finite(batch.weight, "sample_weight", estimator)


def _check_piece_finite(folds, estimator):
    check_rows_finite(folds.batch, estimator)


def _is_fine(x, xp, allow_nan):
    return not any_true(xp.isinf(x), xp) if allow_nan else all_finite(x, xp)


def _needs_no_change(x, finite):
    """Whether scikit-learn's validation finds nothing in an array of NumPy, and gives it back.

    To find that out takes it as long as a small fit takes.
    """
    if type(x) is not np.ndarray or x.dtype not in FLOATS or x.ndim not in (1, 2) or x.size == 0:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return not finite or bool(np.isfinite(np.sum(x)))


def features_fit(estimator, X, reset):
    """Whether X has the features that it must have, and no names matter; sets their number."""
    if hasattr(estimator, "feature_names_in_"):
        return False
    if reset:
        estimator.n_features_in_ = X.shape[1]
    return X.shape[1] == getattr(estimator, "n_features_in_", None)


def _check_features(estimator, X, *, reset):
    """Set or check names and number of the features of a foreign array."""
    # A search cuts rows to arrays, which have no names: a model without any may meet a DataFrame.
    if hasattr(estimator, "feature_names_in_") or (reset and was_frame(X)):
        _check_feature_names(estimator, header_of(X), reset=reset)
    _check_n_features(estimator, X, reset=reset)


def _check_weight(weight, X, place, signed):
    xp, n = place.xp, X.shape[0]
    if sparse.issparse(weight):
        raise TypeError("Sparse data was passed for sample_weight, but dense data is required.")
    if not is_array(weight):
        weight = np.asarray(weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array.")
    if weight.shape[0] != n:
        raise ValueError(f"sample_weight.shape == {tuple(weight.shape)}, expected {(n,)}!")
    weight = xp.astype(as_float(move(weight, place), "sample_weight", xp), X.dtype)
    if not all_finite(weight, xp):
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if not signed and any_true(weight < 0, xp):
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not any_true(weight != 0, xp):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
