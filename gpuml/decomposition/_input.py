"""What is passed to transformers becomes arrays, or a clear error."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from gpuml._arrays import Array, as_array
from gpuml._config import current_settings
from gpuml._validation import (
    FLOATS,
    check_finite,
    check_images,
    check_predict,
    check_rows,
    is_foreign,
)
from gpuml.data import Batch, resident_rows


def is_cupyx_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix on a GPU."""
    return type(X).__module__.startswith("cupyx.scipy.sparse")


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix, on the host or a GPU."""
    return sparse.issparse(X) or is_cupyx_sparse(X)


def check_fit_rows(
    estimator: Any, X: Any, *, min_rows: int = 1, min_features: int = 1, reset: bool = True
) -> Array:
    """Check dense rows for `fit`; whether they are finite, their sums are to tell.

    Raises
    ------
    ValueError
        As `check_rows`, and for too few rows or columns.
    TypeError
        Sparse X.
    """
    X = check_rows(estimator, X, reset=reset, finite_X=False)
    for axis, (what, least) in enumerate((("sample", min_rows), ("feature", min_features))):
        if X.shape[axis] < least:
            raise ValueError(
                f"Found array with {X.shape[axis]} {what}(s) (shape={tuple(X.shape)}) while a "
                f"minimum of {least} is required by {type(estimator).__name__}."
            )
    return X


def batch_of(X: Array) -> Batch:
    """Rows without targets, at the place where the settings want them worked on."""
    return resident_rows(X, current_settings().device)


def check_cupyx(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check a sparse matrix on a GPU: CSR, float32 or float64, finite."""
    if not reset and X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    X = X.tocsr()
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\nX has dtype {X.dtype}.")
    if X.dtype not in FLOATS:
        X = X.astype(np.float64)
    check_finite(X.data, "X", estimator)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    return X


def check_seen(estimator: Any, X: Any) -> Any:
    """Check rows for `transform`, dense or sparse, of host or device."""
    if is_cupyx_sparse(X):
        return check_cupyx(estimator, X, reset=False)
    if sparse.issparse(X):
        return validate_data(estimator, X, dtype=FLOATS, accept_sparse=("csr", "csc"), reset=False)
    return check_predict(estimator, X)


def check_reduced(estimator: Any, X: Any, n_components: int) -> Array:
    """Check rows of components for `inverse_transform`."""
    X = as_array(X)
    if not is_foreign(X):
        X = check_array(X, input_name="X", dtype=FLOATS)
    return check_images(estimator, X, n_components)


def refuse_what_is_not_finite(estimator: Any, X: Array) -> None:
    """Say what is wrong with rows whose sums are not finite."""
    check_finite(X, "X", estimator)
    raise ValueError(
        "Squares of the values of X overflow float64. Scale the features (StandardScaler, or "
        "divide by a power of ten)."
    )
