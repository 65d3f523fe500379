"""Nearest neighbours that differ in their number and weights: the largest query answers for all.

The k nearest rows are the first k of the K > k nearest. So each part of a fold is asked for once,
by the public `kneighbors` of a model, and scikit-learn's own `predict` and `predict_proba` count
votes, or take means, of the first columns of the answer. Where two rows are equally far, a smaller
query may keep another one of them: rows of which that decides are asked for again.

Of rows on a device, or a model that cuML fitted, votes and means are taken by `gpuml.solvers`.
"""

import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property, wraps
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms

from gpuml._arrays import as_array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.labels import encode
from gpuml._arrays.threads import blas_threads
from gpuml._sklearn import _num_samples
from gpuml.model_selection.candidates import QUERIED
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.one_fit import OneFit, is_count, of_sklearn, shallow
from gpuml.model_selection.prefix_keys import estimator_key
from gpuml.resampling.multifit import NEIGHBOURS
from gpuml.solvers.neighbours import Votes, inverse_distances, means, of_neighbours, shares, winners

# What models of one query may differ in.
VARYING = ("n_neighbors", "weights")
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
    if not is_count(estimator.n_neighbors):
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


class OneQuery(OneFit):
    """Neighbours of the rows of each part, found once for all models of a `query_key`."""

    def __init__(self, fitted: Any, X: Any, y: Any, parts: Sequence[Any]):
        super().__init__(fitted, X, y, parts)
        self._on_host = is_host_model(fitted)
        self._found: dict[int, Any] = {}

    @staticmethod
    def varying(estimator: Any) -> tuple[str, ...]:
        """The number of neighbours, and their weights."""
        return VARYING if asks_neighbours(estimator) else ()

    key = staticmethod(query_key)

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """Why fewer neighbours are not read off more; None where they are."""
        return refused_number(model, _num_samples(X))

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """The model of most neighbours."""
        return max(models, key=lambda model: model.n_neighbors)

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """That neighbours are looked for once."""
        return (QUERIED,)

    def order(self, model: Any) -> Any:
        """From few neighbours to many, so that votes are counted once."""
        return model.n_neighbors

    def refused(self, model: Any) -> str | None:
        """Why a model is not answered from the query; None if it is."""
        if self._on_host:
            return None
        if callable(model.weights):
            return "weights of your own are computed in CPU memory"
        several = is_classifier(model) and np.ndim(self.y) > 1
        return "votes for several targets are counted in CPU memory" if several else None

    def model(self, unfitted: Any) -> Any:
        """What an unfitted model would be if it were fitted by itself."""
        return shallow(self.fitted).set_params(**unfitted.get_params(deep=False))

    def answering(self, unfitted: Any) -> Any:
        """A model that predicts the same from neighbours that are known."""
        model = self.model(unfitted)
        return self._read(model) if self._on_host else self._counted(model)

    def _read(self, model):
        """A model whose votes and means are scikit-learn's own."""
        reads, out = of_sklearn(model), shallow(model)
        reads.kneighbors = self._reader(model)
        if model.weights == "uniform" and getattr(model, "outputs_2d_", None) is False:
            # The same votes. Told by name, brute force counts them while it looks for neighbours.
            reads.weights = None
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                setattr(out, method, self._method(model, reads, method))
        return out

    def _counted(self, model):
        """A model whose votes and means are taken where the rows are."""
        out = shallow(model)
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                setattr(out, method, self._counting(getattr(model, method), method, model))
        return out

    def _counting(self, own, name, model):
        @wraps(own)  # scorers ask for it by its name
        def method(X):
            found = self._of(X)
            return own(X) if found is None else getattr(found, name)(model)

        return method

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
        part = self.part(X)
        if part is None:
            return None
        if part not in self._found:
            self._found[part] = (
                _Found(self.fitted, self.X, X)
                if self._on_host
                else _Counted(self.fitted, self.y, X)
            )
        return self._found[part]


def _replaced(values: Any, rows: np.ndarray, others: Any) -> Any:
    """Values with others in some rows; probabilities of several targets are a list."""
    if isinstance(values, list):
        pairs = zip(values, others, strict=True)
        return [_replaced(each, rows, other) for each, other in pairs]
    values[rows] = others
    return values


def _on_all_cores(model: Any) -> Any:
    """A model whose trees are asked by as many threads as brute force takes by itself.

    Left alone where products of matrices are distances, which threads would cut otherwise.
    """
    of_trees = sys.modules["sklearn.neighbors"].VALID_METRICS["ball_tree"]
    by_pair = model.effective_metric_ in of_trees
    if model.n_jobs is not None or not by_pair:
        return model
    return shallow(model).set_params(n_jobs=blas_threads())


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
        self.nearest = _on_all_cores(fitted).kneighbors(X, most)
        power = POWERS.get(fitted.effective_metric_)
        self._compared = self.nearest[0] ** (power or 1)
        self._error = 0.0 if power is None else _rounding(X_train, X)

    def ties(self, k: int) -> np.ndarray:
        """Rows of which the k-th neighbour and the next may have been compared as equally far."""
        if k == self._compared.shape[1]:
            return np.empty(0, np.intp)
        near, far = self._compared[:, k - 1], self._compared[:, k]
        return np.flatnonzero(~(far - near > self._error))


class _Counted:
    """Predictions of some rows from their K nearest rows, in any library."""

    def __init__(self, fitted: Any, y: Any, X: Any):
        self._distances, self._rows = fitted.kneighbors(X)
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
    """How far apart squared distances (m,) are that rounding may make equal.

    Of norms and products of p numbers in float64, of which each has an error of at most (p + 2) eps
    times a half of the sum of both squared norms.
    """
    X_train, X = (
        check_array(each, accept_sparse="csr", ensure_all_finite=False) for each in (X_train, X)
    )
    squares = row_norms(X, squared=True) + row_norms(X_train, squared=True).max()
    return 4 * (X.shape[1] + 2) * np.finfo(np.float64).eps * squares
