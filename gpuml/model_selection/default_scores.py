"""The default score of single fits, without checks that take as long as fits to few rows.

scikit-learn's classifiers and regressors inherit `score`: the accuracy, or R^2, of what they
predict. Both look at labels and numbers in ways that take 0.2 to 0.3 ms, whatever their number.
"""

import inspect
import sys
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

from gpuml._arrays import is_cupy, is_numpy
from gpuml._sklearn import _PassthroughScorer, _routing_enabled
from gpuml.metrics.classification import accuracy_score
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2

# What models inherit.
ACCURACIES = (ClassifierMixin.score, ScoredByAccuracy.score)
R2S = (RegressorMixin.score, ScoredByR2.score)
# Classes of `sklearn.neighbors` with a `score` that does nothing but call its mixin's.
SAME = ("KNeighborsClassifier", "RadiusNeighborsClassifier")


def quick(scorer: Any, model: Any, y: Any) -> Any:
    """A scorer with the same scores as that of a model, which is quicker if it may be.

    Parameters
    ----------
    scorer : callable
    model : estimator
        Fitted; a pipeline is scored as its last step.
    y : array
        Targets, without weights.
    """
    plain = (is_numpy(y) or is_cupy(y)) and y.ndim == 1 and len(y) > 1
    if not plain or not isinstance(scorer, _PassthroughScorer) or _routing_enabled():
        return scorer
    last = model
    while type(last) is Pipeline:
        last = last.steps[-1][1]
    if any("score" in getattr(each, "__dict__", ()) for each in (model, last)):
        return scorer
    method = _score_of(type(last))
    if y.dtype.kind in "iuU" and (method in ACCURACIES or _is_same(method)):
        return _accuracy
    return _r2 if is_numpy(y) and y.dtype == np.float64 and method in R2S else scorer


def _score_of(kind):
    """The function that a class has as `score`; scikit-learn's, where an adapter forwards to it."""
    owner = next((each for each in kind.__mro__ if "score" in vars(each)), None)
    method: Any = None if owner is None else vars(owner)["score"]
    # Names tell nothing: `functools.wraps` copies them to functions of the user.
    return inspect.unwrap(method) if owner is not None and "_row" in vars(owner) else method


def _is_same(method):
    neighbors = sys.modules.get("sklearn.neighbors")  # no import: else there are no such models
    return neighbors is not None and any(method is getattr(neighbors, n).score for n in SAME)


def _accuracy(model, X, y):
    found = model.predict(X)
    if type(found) is type(y) and found.dtype == y.dtype and found.shape == y.shape:
        same = found == y
        # The mean of flags is one more kernel that CuPy compiles.
        right = np.count_nonzero(same) if is_numpy(same) else float(same.astype(np.float64).sum())
        return float(right / len(y))
    return accuracy_score(y, found)


def _r2(model, X, y):
    found = model.predict(X)
    if is_numpy(found) and found.dtype == y.dtype and found.shape == y.shape:
        # As columns, in the order of scikit-learn's sums, so that the bits are the same.
        target, found = y[:, None], found[:, None]
        with np.errstate(all="ignore"):
            left = np.sum((target - found) ** 2, axis=0)
            total = np.sum((target - np.average(target, axis=0)) ** 2, axis=0)
            score = 1.0 - left / total
        if np.isfinite(score).all():
            return float(score[0])
        found = found[:, 0]
    return r2_score(y, found)
