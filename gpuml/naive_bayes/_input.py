"""Checks of the input of naive Bayes classifiers: rows, labels, weights and classes."""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import unique_labels

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    is_numpy,
    is_sparse,
    move,
    place_of,
    to_host,
)
from gpuml._arrays.labels import Encoded
from gpuml._arrays.ops import any_true
from gpuml._inputs.csr import NUMBERS, check_csr
from gpuml._inputs.validation import check_classify, check_rows


class Labelled(NamedTuple):
    """Checked rows, dense or CSR, with labels and weights on the device of the rows."""

    X: Any
    labels: Encoded
    weight: Array | None


def labelled(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Labelled:
    """Rows that are checked already, with labels and weights that are checked here.

    Integer and bool rows keep their dtype: sums convert one block at a time to float64.

    Raises
    ------
    ValueError
        As for `gpuml._inputs.validation.check_classify`.
    """
    place = place_of(values_of(X))
    # Labels and weights are checked together with a column of zeros on the device of X, on a copy
    # of the estimator, because the check sets the number of features.
    column = place.xp.zeros((X.shape[0], 1), dtype=place.xp.float64, device=place.device)
    sample_weight = as_array(sample_weight)
    if sample_weight is not None and not is_array(sample_weight) and place.kind != "numpy":
        # A copy, because other libraries reject memory that pandas has made read-only.
        sample_weight = np.array(sample_weight, dtype=np.float64)
    _, labels, weight = check_classify(copy(estimator), column, y, sample_weight)
    return Labelled(X, labels, weight)


def check_X(estimator: Any, X: Any, *, reset: bool = False, accept_sparse: bool = True) -> Any:
    """Check rows without labels: dense in their library, or CSR.

    Raises
    ------
    ValueError
        As for `gpuml._inputs.validation.check_rows`.
    TypeError
        For sparse X if `accept_sparse` is False.
    """
    X = as_array(X)
    if is_sparse(X) and accept_sparse:
        return check_csr(estimator, X, reset=reset)
    if is_cupyx_sparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. Use '.toarray()' to "
            "convert to a dense array."
        )
    return _numbers(check_rows(estimator, X, reset=reset, keep_dtype=True))


def values_of(X: Any) -> Array:
    """The values of rows as one array: the stored values if X is CSR."""
    return X.data if is_sparse(X) else X


def is_single(X: Any) -> bool:
    """Whether rows are float32."""
    values = values_of(X)
    return bool(values.dtype == place_of(values).xp.float32)


def result_dtype(X: Any) -> Any:
    """float32 for float32 rows, otherwise float64, as a dtype of the library of the rows."""
    xp = place_of(values_of(X)).xp
    return xp.float32 if is_single(X) else xp.float64


def refuse_negative(X: Any, whom: str) -> None:
    """Raise scikit-learn's ValueError if a value is below 0."""
    values = values_of(X)
    xp = place_of(values).xp
    if xp.isdtype(values.dtype, "bool"):
        return
    if values.shape[0] > 0 and any_true(values < 0, xp):
        raise ValueError(f"Negative values in data passed to {whom}.")


def _numbers(X):
    if is_foreign(X):
        return X
    if X.dtype.kind not in NUMBERS:
        raise ValueError(f"X must hold numbers, got dtype {X.dtype}. Convert it explicitly.")
    return X


def first_classes(model: Any, classes: Any, labels: Encoded) -> None:
    """Set `classes_` in the first call of `partial_fit`, and check `classes` in later calls.

    Raises
    ------
    ValueError
        If the first call has no classes, or a later call has different ones.
    """
    known = getattr(model, "classes_", None)
    if classes is None:
        if known is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        return
    classes = as_array(classes)
    classes = unique_labels(to_host(classes) if is_array(classes) else classes)
    if known is None:
        foreign = is_foreign(labels.classes) and classes.dtype.kind in NUMBERS
        model.classes_ = move(classes, place_of(labels.classes)) if foreign else classes
    elif not np.array_equal(to_host(known), classes):
        raise ValueError(
            f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}"
        )


def codes_among(labels: Encoded, classes: Array) -> Array:
    """Positions of labels (n,) in sorted classes, int64, on the device of the labels.

    Raises
    ------
    ValueError
        If a label is not one of the classes.
    """
    here, known = labels.host_classes, to_host(classes)
    place = place_of(labels.codes)
    codes = place.xp.astype(labels.codes, place.xp.int64)
    is_known = np.isin(here, known)
    if not is_known.all():
        raise ValueError(
            f"The target label(s) {here[~is_known]} in y do not exist in the initial classes "
            f"{known}"
        )
    if len(here) == len(known):
        return codes
    rank = np.searchsorted(known, here).astype(np.int64)
    return place.xp.take(move(rank, place), codes, axis=0)


def labels_at(classes: Array, codes: Array) -> Array:
    """Labels of codes, on the device of the codes; strings are in NumPy arrays."""
    if is_numpy(classes) and classes.dtype.kind not in NUMBERS:
        return classes[to_host(codes)]
    place = place_of(codes)
    return place.xp.take(move(classes, place), codes, axis=0)
