"""Nearest neighbours that differ in their number and weights: the largest query answers for all.

The k nearest rows are the first k of the K > k nearest. So each part of a fold is asked for once,
by the public `kneighbors` of a model, and scikit-learn's own `predict` and `predict_proba` count
votes, or take means, of the first columns of the answer. Where two rows are equally far, a smaller
query may keep another one of them: rows of which that decides are asked for again.
"""

import sys
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms

from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.prefix_keys import estimator_key
from gpuml.resampling.multifit import NEIGHBOURS

# What models of one query may differ in.
VARYING = ("n_neighbors", "weights")
# Why models that were fitted from rows of a device, or on one, are asked one by one.
ON_A_DEVICE = "on a device each candidate looks for its own neighbours"
# Powers of distances that scikit-learn compares as sums of norms and products.
POWERS = {"euclidean": 2, "l2": 2, "sqeuclidean": 1}


def asks_neighbours(estimator: Any) -> bool:
    """Whether a model predicts by what `kneighbors` gives, and by nothing else."""
    kind = type(estimator)
    # Nothing is imported for it: without the modules there is no such estimator.
    modules = (sys.modules.get(name) for name in ("sklearn.neighbors", "gpuml.neighbors"))
    return kind.__name__ in NEIGHBOURS and any(
        kind is getattr(module, kind.__name__, None) for module in modules
    )


def query_key(estimator: Any) -> Hashable | None:
    """Equal for models that the one of most neighbours answers for; None of others."""
    if not asks_neighbours(estimator):
        return None
    wanted = estimator.n_neighbors
    if isinstance(wanted, bool) or not isinstance(wanted, Integral) or wanted < 1:
        return None  # its fit tells what is wrong
    return estimator_key(estimator, without=VARYING)


def refused_number(model: Any, n_rows: int) -> str | None:
    """Why a model is not answered by a larger query of so many training rows; None if it is."""
    if model.n_neighbors > n_rows:
        return f"n_neighbors is more than the {n_rows} rows of a training part"
    if model.algorithm == "auto" and model.n_neighbors >= n_rows // 2:
        return (
            "algorithm='auto' takes brute force where n_neighbors is half of the rows of a "
            "training part or more; set algorithm='brute'"
        )
    return None


def is_host_model(fitted: Any) -> bool:
    """Whether a model is scikit-learn's, fitted from rows in CPU memory."""
    return "n_samples_fit_" in vars(fitted)  # adapters ask others for it


class OneQuery:
    """Neighbours of some rows, for all models that one fitted model has the `query_key` of.

    Parameters
    ----------
    fitted : estimator
        The one of most neighbours.
    X : array-like (n, p)
        What it was fitted to.
    parts : sequence of array-like
        Rows that are asked for once; predictions for others ask anew.
    """

    def __init__(self, fitted: Any, X: Any, parts: Sequence[Any]):
        self._fitted, self._X, self._parts = fitted, X, parts
        self._found: dict[int, _Found] = {}

    def model(self, unfitted: Any) -> Any:
        """What an unfitted model would be if it were fitted by itself."""
        return copy(self._fitted).set_params(**unfitted.get_params(deep=False))

    def answering(self, model: Any) -> Any:
        """A model that predicts the same from neighbours that are known."""
        reads, out = _of_sklearn(model), copy(model)
        reads.kneighbors = self._reader(model)
        if model.weights == "uniform" and getattr(model, "outputs_2d_", None) is False:
            # The same votes. Told by name, brute force counts them while it looks for neighbours.
            reads.weights = None
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                setattr(out, method, self._method(model, reads, method))
        return out

    def _reader(self, model: Any) -> Callable[..., Any]:
        def kneighbors(X, return_distance=True):
            found = self._of(X)
            assert found is not None  # `_method` looks before
            distances, rows = (each[:, : model.n_neighbors] for each in found.nearest)
            return (distances, rows) if return_distance else rows

        return kneighbors

    def _method(self, model: Any, reads: Any, name: str) -> Callable[[Any], Any]:
        own, known = getattr(model, name), getattr(reads, name)

        @wraps(own)  # scorers ask for it by its name
        def method(X):
            found = self._of(X)
            if found is None:
                return own(X)
            ties = found.ties(model.n_neighbors)
            if len(ties) and callable(model.weights):
                return own(X)  # what it makes of one row may depend on others
            return _replaced(known(X), ties, own(rows_of(X, ties))) if len(ties) else known(X)

        return method

    def _of(self, X: Any) -> "_Found | None":
        part = next((i for i, rows in enumerate(self._parts) if rows is X), None)
        if part is None:
            return None
        if part not in self._found:
            self._found[part] = _Found(self._fitted, self._X, X)
        return self._found[part]


def _replaced(values: Any, rows: np.ndarray, others: Any) -> Any:
    """Values with others in some rows; probabilities of several targets are a list."""
    if isinstance(values, list):
        pairs = zip(values, others, strict=True)
        return [_replaced(each, rows, other) for each, other in pairs]
    values[rows] = others
    return values


def _of_sklearn(model: Any) -> Any:
    """A model as scikit-learn's, which computes where the rows are."""
    mro = type(model).__mro__
    kind: Any = next(each for each in mro if each.__module__.startswith("sklearn."))
    out = kind.__new__(kind)
    vars(out).update(vars(model))
    return out


class _Found:
    """The K nearest rows of each of some rows, and one more that tells of ties.

    Attributes
    ----------
    nearest : tuple of arrays (m, K + 1)
        Distances, and numbers of training rows.
    """

    def __init__(self, fitted: Any, X_train: Any, X: Any):
        most = fitted.n_neighbors
        if fitted.metric != "precomputed":  # graphs may have no more
            most = min(most + 1, fitted.n_samples_fit_)
        self.nearest = fitted.kneighbors(X, most)
        power = POWERS.get(fitted.effective_metric_)
        self._compared = self.nearest[0] ** (power or 1)
        self._error = 0.0 if power is None else _rounding(X_train, X)

    def ties(self, k: int) -> np.ndarray:
        """Rows of which the k-th neighbour and the next may have been compared as equally far."""
        if k == self._compared.shape[1]:
            return np.empty(0, np.intp)
        near, far = self._compared[:, k - 1], self._compared[:, k]
        return np.flatnonzero(~(far - near > self._error))


def _rounding(X_train, X):
    """How far apart squared distances (m,) are that rounding may make equal.

    Of norms and products of p numbers in float64, of which each has an error of at most (p + 2) eps
    times a half of the sum of both squared norms.
    """
    X_train, X = (
        check_array(each, accept_sparse="csr", ensure_all_finite=False) for each in (X_train, X)
    )
    squares = row_norms(X, squared=True) + row_norms(X_train, squared=True).max()
    return 4 * (X.shape[1] + 2) * np.finfo(np.float64).eps * squares
