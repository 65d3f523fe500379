"""Sparse rows for linear models: as batches, and multiplied by coefficients."""

from copy import copy
from dataclasses import replace
from typing import Any

from gpuml._arrays import Array, as_array, is_array, is_cupyx_sparse, move, place_of
from gpuml._inputs.csr import check_csr
from gpuml._inputs.validation import check_classify, check_fit
from gpuml._settings.config import current_settings
from gpuml.designs._sparse_ops import times
from gpuml.solvers.sparse_rows import SparseBatch, sparse_batch


def sparse_fit_batch(estimator: Any, X: Any, y: Any, sample_weight: Any) -> SparseBatch:
    """Check what a regressor was given with sparse X, and bring it to where it is worked on."""
    X = check_csr(estimator, X, reset=True, floats=True)
    _, y, weight = check_fit(copy(estimator), _stand_in(X), y, sample_weight, finite_X=False)
    return sparse_batch(X, y, weight, current_settings().device)


def sparse_classes_batch(estimator: Any, X: Any, y: Any, sample_weight: Any) -> SparseBatch:
    """As `sparse_fit_batch`, with labels for y."""
    X = check_csr(estimator, X, reset=True, floats=True)
    _, labels, weight = check_classify(copy(estimator), _stand_in(X), y, sample_weight)
    codes = move(labels.codes, place_of(X.data))
    batch = sparse_batch(X, codes, weight, current_settings().device)
    return replace(batch, codes=batch.y[:, 0], classes=labels.classes)


def _stand_in(X):
    """One dense column where X is, of its dtype, so that y and weights are checked against that."""
    place = place_of(X.data)
    return place.xp.zeros((X.shape[0], 1), dtype=X.data.dtype, device=place.device)


def sparse_response(estimator: Any, X: Any, coef: Any, intercept: Any) -> Array:
    """``X coef' + intercept`` (n,) or (n, t) of sparse X, where X is and of its dtype."""
    X = check_csr(estimator, X, reset=False, floats=True)
    place = place_of(X.data)
    xp = place.xp
    coef, intercept = (
        xp.astype(move(as_array(a), place), X.data.dtype, copy=False) if is_array(a) else a
        for a in (_dense(coef), intercept)
    )
    if not is_array(intercept):
        intercept = float(intercept)  # of a model without one
    if coef.ndim == 1:
        return times(X, coef[:, None])[:, 0] + intercept
    return times(X, coef.T) + intercept


def _dense(coef):
    """Coefficients that `sparsify` made sparse."""
    return coef.toarray() if hasattr(coef, "toarray") else coef


def refuse_device_sparse(estimator: Any, X: Any, reason: str, instead: str) -> None:
    """Raise a ValueError where scikit-learn would have to do a fit to sparse rows on a GPU."""
    if is_cupyx_sparse(X):
        raise ValueError(
            f"{type(estimator).__name__} with {reason} runs scikit-learn's solver, which needs "
            f"data in CPU memory, and got X on a GPU. Use {instead}, or pass X.get()."
        )
