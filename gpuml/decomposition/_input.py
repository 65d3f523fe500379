"""What is passed to transformers becomes arrays, or a clear error."""

from typing import Any

from sklearn.utils.validation import check_array, validate_data

from gpuml._arrays import Array, as_array, is_cupyx_sparse, is_foreign, is_host_sparse, is_numpy
from gpuml._inputs.csr import check_csr
from gpuml._inputs.foreign_rows import check_shape
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import FLOATS, check_finite, check_images, check_rows, host_floats
from gpuml._settings.config import current_settings
from gpuml.data import Batch, resident_rows
from gpuml.decomposition._streamed import OVERFLOW
from gpuml.reading.sources import is_stored

BY_BLOCKS = "PCA(svd_solver='compressed') or TruncatedSVD(algorithm='compressed')"


def check_fit_rows(
    estimator: Any,
    X: Any,
    *,
    min_rows: int = 1,
    min_features: int = 1,
    keep_dtype: bool = False,
) -> Array:
    """Check dense rows for `fit`; whether they are finite, their sums are to tell.

    With `keep_dtype`, integers stay what they are.

    Raises
    ------
    ValueError
        As `check_rows`, and for too few rows or columns, and for an object that can only be read
        block by block.
    TypeError
        Sparse X.
    """
    demand_array(estimator, X)
    X = _check_numbers(estimator, X, reset=True, finite_X=False, keep_dtype=keep_dtype)
    check_shape(X, estimator, min_rows=min_rows, min_features=min_features)
    return X


def demand_array(estimator: Any, X: Any) -> None:
    """Refuse an object that can only be read block by block.

    Raises
    ------
    ValueError
    """
    if is_stored(X) and not hasattr(X, "__array__"):
        raise ValueError(
            f"X is a {type(X).__name__}, which is read block by block, and "
            f"{type(estimator).__name__} with these parameters needs an array. Use {BY_BLOCKS}, or "
            f"pass the array X[0:{X.shape[0]}]."
        )


def _check_numbers(estimator, X, *, keep_dtype, **how):
    X = check_rows(estimator, X, keep_dtype=keep_dtype, **how)
    # Of NumPy, what are no numbers yet.
    return host_floats(X) if is_numpy(X) and X.dtype.kind not in "fiub" else X


def batch_of(X: Array) -> Batch:
    """Rows without targets, at the place where the settings want them worked on."""
    return resident_rows(X, current_settings().device)


def check_seen(estimator: Any, X: Any) -> Any:
    """Check rows for `transform`, dense or sparse, in CPU memory or on a device."""
    if is_cupyx_sparse(X):
        return check_csr(estimator, X, reset=False, floats=True)
    if is_host_sparse(X):
        accepted = ("csr", "csc")
        with naming_columns(estimator, X):
            return validate_data(estimator, X, dtype=FLOATS, accept_sparse=accepted, reset=False)
    return check_seen_dense(estimator, X)


def check_seen_dense(estimator: Any, X: Any) -> Array:
    """Check dense rows for `transform` and scores; integers stay what they are."""
    return _check_numbers(estimator, X, reset=False, keep_dtype=True)


def check_reduced(estimator: Any, X: Any, n_components: int) -> Array:
    """Check rows of components for `inverse_transform`."""
    X = as_array(X)
    if not is_foreign(X):
        X = check_array(X, input_name="X", dtype=FLOATS)
    return check_images(estimator, X, n_components)


def refuse_what_is_not_finite(estimator: Any, X: Array) -> None:
    """Say what is wrong with rows whose sums are not finite."""
    check_finite(X, "X", estimator)
    raise ValueError(OVERFLOW)
