"""What the linear classifiers share: decision values and labels where X is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, is_numpy, move, namespace, place_of, to_host
from gpuml._persistence.travel import Travels
from gpuml._sklearn import check_same_namespace
from gpuml.linear_model._input import linear_response
from gpuml.metrics.own_scores import ScoredByAccuracy


class LinearClassifier(ScoredByAccuracy, Travels):
    """`decision_function`, `predict` and `score` of a model with `coef_` (k or 1, p)."""

    def decision_function(self, X):
        """Decision values ``X coef_' + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X. Of two classes the second is predicted where
            they are positive.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="decision_function")
        scores = linear_response(self, X)
        return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores

    def predict(self, X):
        """The class of largest decision value.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict")
        scores = self.decision_function(X)
        xp = namespace(scores)
        if scores.ndim == 1:
            index = xp.astype(scores > 0, xp.int64)
        else:
            index = xp.argmax(scores, axis=1)
        return _labels_at(self.classes_, index)


class Sparsified:
    """A mixin before scikit-learn's class: `sparsify` of coefficients on any device."""

    coef_: Any

    def sparsify(self):
        """Make `coef_` a SciPy sparse array, which is in CPU memory.

        Returns
        -------
        self : estimator
            Fitted. Predictions stay where X is.
        """
        check_is_fitted(self)
        if is_array(self.coef_):
            self.coef_ = to_host(self.coef_)
        return super().sparsify()  # type: ignore[misc]


class ProbabilityClassifier(LinearClassifier):
    """A linear classifier whose decision values are logarithms of odds."""

    _numeric_strings = "fit"

    def predict_proba(self, X):
        """Probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X; rows sum to 1.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict_proba")
        scores = self.decision_function(X)
        xp = namespace(scores)
        return two_class_probability(scores, xp) if scores.ndim == 1 else softmax(scores, xp)

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        log_probability : array of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict_log_proba")
        probability = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return namespace(probability).log(probability)


def weights_of_classes(class_weight: Mapping, classes: np.ndarray) -> np.ndarray:
    """Weights (k,), float64, of classes; 1 for those that a dict says nothing of.

    Raises
    ------
    ValueError
        If a weight is negative, nan or infinite, or a key is no class.
    """
    weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), float)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"class_weight must not be negative, nan or infinite, got {class_weight}. Use 0 for "
            "classes that should not count."
        )
    return weights


def softmax(scores: Array, xp: Any) -> Array:
    """Probabilities (n, k) whose logarithms differ from scores (n, k) by a constant per row."""
    scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return scores / xp.sum(scores, axis=-1, keepdims=True)


def two_class_probability(scores: Array, xp: Any) -> Array:
    """Probabilities (..., 2) of decision values (...): neither column loses small digits."""
    small = xp.exp(-xp.abs(scores))
    larger, smaller = 1 / (1 + small), small / (1 + small)
    second = scores > 0
    first = xp.where(second, smaller, larger)
    return xp.stack([first, xp.where(second, larger, smaller)], axis=-1)


def _labels_at(classes, index):
    """Labels of codes; where the codes are unless no array there can hold them."""
    place = place_of(index)
    if is_numpy(classes) and classes.dtype.kind not in "iufb":
        return classes[to_host(index)]
    classes = move(classes, place) if is_array(classes) else classes
    return place.xp.take(classes, index, axis=0)
