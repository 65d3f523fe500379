"""Sparse rows in CSR format, of SciPy or cupyx: checked and multiplied at their place."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from gpuml._arrays import Array, is_host_sparse
from gpuml._inputs.foreign_rows import check_shape
from gpuml._inputs.host_rows import FLOATS, naming_columns
from gpuml._inputs.validation import check_finite, features_fit
from gpuml._sklearn import _check_n_features

NUMBERS = "fiub"
CSR = (sparse.csr_matrix, sparse.csr_array)


def check_csr(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    floats: bool = False,
    formats: tuple[str, ...] = ("csr",),
) -> Any:
    """Check sparse rows, and bring them to CSR.

    Parameters
    ----------
    estimator : estimator
        Named in messages.
    X : sparse matrix (n, p)
        Of any format, of SciPy or cupyx; or a DataFrame of pandas, all columns of it sparse.
    reset : bool
        Whether `n_features_in_` is set (in `fit`) or checked.
    floats : bool, default=False
        Whether values other than float32 become float64; otherwise they stay what they are.
    formats : tuple of str, default=("csr",)
        Those that a matrix of SciPy may keep: to convert it takes longer than a product with it.

    Raises
    ------
    ValueError
        No rows or columns, other features than in `fit`, nan or inf, complex values.
    """
    if is_host_sparse(X):
        if _needs_no_change(X) and features_fit(estimator, X, reset):
            return X
        dtype = [np.float64, np.float32] if floats else "numeric"
        with naming_columns(estimator, X):
            return validate_data(estimator, X, accept_sparse=formats, dtype=dtype, reset=reset)
    return _check_cupyx(estimator, X, reset, floats)


def _needs_no_change(X):
    """Whether scikit-learn's validation finds nothing in CSR of SciPy, and gives it back."""
    if type(X) not in CSR or X.ndim != 2 or X.dtype not in FLOATS or 0 in X.shape:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.sum(X.data)))


def _check_cupyx(estimator, X, reset, floats):
    check_shape(X, estimator)
    _check_n_features(estimator, X, reset=reset)
    X = X.tocsr()
    if X.dtype.kind not in NUMBERS:
        raise ValueError(f"Complex data not supported\nX has dtype {X.dtype}.")
    if floats and X.dtype not in (np.float64, np.float32):
        X = X.astype(np.float64)
    check_finite(X.data, "X", estimator)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
    return X


def with_values(X: Any, values: Array, *, copy: bool = False) -> Any:
    """CSR with the pattern of X (n, p) and other values (nnz,).

    The pattern is shared unless `copy` asks for one of its own.
    """
    indices, indptr = (X.indices.copy(), X.indptr.copy()) if copy else (X.indices, X.indptr)
    return type(X)((values, indices, indptr), shape=X.shape)


def in_float64(X: Any) -> Any:
    """The matrix with float64 values; itself if it has them."""
    return X if X.dtype == np.float64 else X.astype(np.float64)
