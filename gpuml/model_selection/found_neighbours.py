"""Results of one large neighbour query, and of the smaller queries that it contains."""

import sys
from functools import cached_property
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms

from gpuml._arrays import as_array, is_cupy, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.labels import encode
from gpuml._arrays.threads import blas_threads
from gpuml._sklearn import _num_samples
from gpuml.model_selection.one_fit import shallow
from gpuml.solvers.nearest import nearest
from gpuml.solvers.neighbours import Votes, inverse_distances, means, of_neighbours, shares, winners

# Distances that scikit-learn compares through sums of norms and products, and their powers.
POWERS = {"euclidean": 2, "l2": 2, "sqeuclidean": 1}
# Distances this close to a radius, relatively, may have been compared as equal.
BOUNDARY = 1e-9
# Rows from which trees are asked in threads: joblib looks every 10 ms whether these are done.
THREADED_FROM_ROWS = 1_000


def _on_all_cores(model: Any, ask: str, X: Any, *args: Any) -> Any:
    """The result of a query, with as many threads for trees as brute force uses.

    Unchanged for few rows, and if distances are matrix products, which threads would divide
    differently. X is None for the rows of the fit.
    """
    of_trees = sys.modules["sklearn.neighbors"].VALID_METRICS["ball_tree"]
    by_pair = model.effective_metric_ in of_trees
    many = (model.n_samples_fit_ if X is None else _num_samples(X)) >= THREADED_FROM_ROWS
    threads = blas_threads() if many else 1
    if model.n_jobs is None and by_pair and threads > 1:
        model = shallow(model).set_params(n_jobs=threads)
        # joblib's own default, processes, would refuse more than one job on Dask's workers.
        with parallel_config(backend="threading"):
            return getattr(model, ask)(X, *args)
    return getattr(model, ask)(X, *args)


class Found:
    """The K nearest rows of each row, and one more to detect ties.

    X is None for the rows of the fit, of which none is a neighbour of its own.

    Attributes
    ----------
    nearest : tuple of arrays (m, K + 1)
        Distances, and numbers of training rows.
    n_rows : int
        m.
    """

    def __init__(self, fitted: Any, X_train: Any, X: Any):
        most = fitted.n_neighbors
        if fitted.metric != "precomputed":  # graphs may not have more
            most = min(most + 1, fitted.n_samples_fit_ - (X is None))
        self.nearest = _on_all_cores(fitted, "kneighbors", X, most)
        power = POWERS.get(fitted.effective_metric_)
        self._compared = self.nearest[0] ** (power or 1)
        self._error = 0.0 if power is None else _rounding(X_train, X_train if X is None else X)
        self.n_rows = len(self._compared)

    def of(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """The result of a query for fewer neighbours."""
        distances, rows = (each[:, : model.n_neighbors] for each in self.nearest)
        return distances, rows

    def doubtful(self, model: Any) -> np.ndarray:
        """Rows whose last neighbour and the next may be equally far up to rounding."""
        k = model.n_neighbors
        if k >= self._compared.shape[1]:
            return np.empty(0, np.intp)
        near, far = self._compared[:, k - 1], self._compared[:, k]
        return np.flatnonzero(~(far - near > self._error))


class Within:
    """The rows within a radius of each row; contains the rows within smaller radii.

    Attributes
    ----------
    n_rows : int
    """

    def __init__(self, fitted: Any, X: Any):
        distances, rows = _on_all_cores(fitted, "radius_neighbors", X)
        self.n_rows = len(rows)
        self._ends = np.cumsum([len(each) for each in rows])
        # All rows in order, concatenated.
        self._distances, self._rows = (
            np.concatenate([np.empty(0, dtype), *each])
            for each, dtype in ((distances, np.float64), (rows, np.intp))
        )
        self._known: tuple[Any, Any] = (None, None)

    def of(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """The result of a query with this radius, in the same order."""
        if self._known[0] != model.radius:
            inside = self._distances <= model.radius
            ends = np.concatenate([[0], np.cumsum(inside)])[self._ends]
            parts = [_by_row(each[inside], ends) for each in (self._distances, self._rows)]
            self._known = model.radius, tuple(parts)
        # scikit-learn writes weights into the array of distances.
        distances, rows = self._known[1]
        return distances.copy(), rows

    def doubtful(self, model: Any) -> np.ndarray:
        """All rows, if one may be exactly at the radius: powers of distances were compared."""
        near = np.abs(self._distances - model.radius) <= BOUNDARY * model.radius
        return np.arange(self.n_rows if near.any() else 0)


def _by_row(values, ends):
    """Arrays that end at `ends`, as an array of objects."""
    out = np.empty(len(ends), dtype=object)
    starts = [0, *ends[:-1].tolist()]
    for i, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True)):
        out[i] = values[start:end]
    return out


class Counted:
    """Predictions of rows from their K nearest rows, in any array library."""

    def __init__(self, fitted: Any, X_train: Any, y: Any, X: Any):
        found = None
        if is_cupy(X_train) and is_cupy(X) and fitted.effective_metric_ in ("euclidean", "l2"):
            found = nearest(X_train, X, fitted.n_neighbors)
        self._distances, self._rows = fitted.kneighbors(X) if found is None else found
        self._y, self._classifies = as_array(y), is_classifier(fitted)
        self._votes: dict[bool, Votes] = {}

    def predict(self, model: Any) -> Any:
        """Labels or means (m,) or (m, t)."""
        if self._classifies:
            codes, classes = winners(self._votes_of(model)), self._labels.classes
            if is_numpy(classes):
                return classes[to_host(codes)]
            return namespace(classes).take(classes, codes, axis=0)
        k = model.n_neighbors
        weights = self._inverse[:, :k] if _weighs(model) else None
        return means(self._targets, self._rows[:, :k], weights)

    def predict_proba(self, model: Any) -> Any:
        """Probabilities (m, C)."""
        return shares(self._votes_of(model))

    def _votes_of(self, model):
        weighs = _weighs(model)
        if weighs not in self._votes:
            codes = of_neighbours(move(self._labels.codes, place_of(self._rows)), self._rows)
            weights = self._inverse if weighs else None
            dtype = self._distances.dtype
            self._votes[weighs] = Votes(codes, weights, self._labels.n_classes, dtype)
        return self._votes[weighs].of(model.n_neighbors)

    @cached_property
    def _labels(self):
        return encode(self._y if self._y.ndim == 1 else self._y[:, 0])

    @cached_property
    def _targets(self):
        y = move(self._y, place_of(self._rows))
        xp = namespace(y)
        floats = xp.isdtype(y.dtype, "real floating")
        return y if floats else xp.astype(y, self._distances.dtype)

    @cached_property
    def _inverse(self):
        return inverse_distances(self._distances)


def _weighs(model):
    return model.weights == "distance"


def _rounding(X_train, X):
    """The largest difference of squared distances (m,) that rounding may hide.

    They are sums of norms and products of p numbers in float64, each with an error of at most (p +
    2) eps times half the sum of both squared norms.
    """
    X_train, X = (
        check_array(each, accept_sparse="csr", ensure_all_finite=False) for each in (X_train, X)
    )
    squares = row_norms(X, squared=True) + row_norms(X_train, squared=True).max()
    return 4 * (X.shape[1] + 2) * np.finfo(np.float64).eps * squares
