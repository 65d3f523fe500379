"""What linear estimators are given becomes batches; rows times coefficients where the rows are."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, namespace, place_of
from gpuml._inputs.csr import check_csr
from gpuml._inputs.validation import check_classify, check_fit, check_predict, flat_target
from gpuml._settings.config import current_settings
from gpuml.data import Batch, resident, resident_classes
from gpuml.designs._sparse_ops import times
from gpuml.solvers.sparse_rows import sparse_batch


def multifit_batch(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    finite_X: bool = False,
) -> Batch:
    """Check the input of a regressor, and move it to its compute device.

    `finite_X` is as for `check_fit`.
    """
    device = current_settings().device
    if is_sparse(X):
        X = check_csr(estimator, X, reset=True, floats=True)
        _, y, weight = check_fit(copy(estimator), _stand_in(X), y, sample_weight, finite_X=False)
        return sparse_batch(X, y, weight, device)
    data = check_fit(estimator, X, y, sample_weight, finite_X=finite_X)
    return resident(*data, device)


def flat_batch(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Batch:
    """As `multifit_batch`, of finite rows with one target each."""
    batch = multifit_batch(estimator, X, y, sample_weight, finite_X=True)
    if batch.y_is_flat:
        return batch
    y = flat_target(batch.y)
    if y.ndim > 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    return replace(batch, y_is_flat=True)


def class_batch(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Batch:
    """As `multifit_batch`, with labels for y."""
    device = current_settings().device
    if not is_sparse(X):
        return resident_classes(*check_classify(estimator, X, y, sample_weight), device)
    X = check_csr(estimator, X, reset=True, floats=True)
    _, labels, weight = check_classify(copy(estimator), _stand_in(X), y, sample_weight)
    batch = sparse_batch(X, move(labels.codes, place_of(X.data)), weight, device)
    return replace(batch, codes=batch.y[:, 0], classes=labels.classes)


def _stand_in(X):
    """One dense column where X is, of its dtype, so that y and weights are checked against that."""
    place = place_of(X.data)
    return place.xp.zeros((X.shape[0], 1), dtype=X.data.dtype, device=place.device)


def linear_response(estimator: Any, X: Any) -> Array:
    """``X coef_' + intercept_`` (n,) or (n, k) of rows that are checked here, where X is."""
    is_rows_sparse = is_sparse(X)
    if is_rows_sparse:
        X = check_csr(estimator, X, reset=False, floats=True, formats=("csr", "csc", "coo"))
    else:
        X = check_predict(estimator, X)
    values = X.data if is_rows_sparse else X
    coef, intercept = (_like(a, values) for a in (estimator.coef_, estimator.intercept_))
    if not is_rows_sparse:
        return X @ (coef if coef.ndim == 1 else namespace(X).matrix_transpose(coef)) + intercept
    if coef.ndim == 1:
        return times(X, coef[:, None])[:, 0] + intercept
    return times(X, coef.T) + intercept


def _like(values, like):
    """Coefficients where some values are, of their dtype."""
    if sparse.issparse(values):  # by `sparsify`
        values = values.toarray()
    if not is_array(values) or isinstance(values, np.floating):
        return float(values)  # keeps float32 predictions float32
    place = place_of(like)
    values = values if place_of(values) == place else move(as_array(values), place)
    return place.xp.astype(values, like.dtype, copy=False)
