"""A binary classifier for each pair of classes, fitted together."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn import multiclass as sk
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from gpuml._arrays import as_array, is_foreign
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.numbered import Numbered, ask_parts, numbers_of
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.parts import (
    Later,
    fit_params_of,
    host_target,
    one_by_one,
    parts_of_rows,
    run_around,
    taken_apart,
)


class OneVsOneClassifier(ScoredByAccuracy, Travels, sk.OneVsOneClassifier):
    """One-vs-one: a binary classifier for each pair of classes; the class with most votes wins.

    The rows of each pair are a training set, like those of a split. So classifiers that need only
    second moments, such as `RidgeClassifier`, are fitted together; on a device, or to few rows,
    also those that share passes over the rows. A group consists of all pairs of classes whose
    numbers, in binary, differ first in the same digit. Other classifiers are fitted one by one: see
    `plan_`. Data on a device stays there; votes are counted in CPU memory.

    Parameters
    ----------
    estimator : estimator
        A classifier, or a regressor whose predictions serve as decision values.
    n_jobs : int or None, default=None
        Number of workers for classifiers that are fitted one by one.

    Attributes
    ----------
    estimators_ : tuple of n_classes * (n_classes - 1) / 2 estimators
        The classifiers of classes 0 and 1, 0 and 2, and so on, with the labels 0 and 1.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    n_classes_ : int
    pairwise_indices_ : list of ndarray, or None
        The rows of each pair, if the estimator takes kernels (tag `pairwise`); otherwise None.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OneVsRestClassifier : A classifier for each class.

    References
    ----------
    T. Hastie, R. Tibshirani, "Classification by pairwise coupling", Annals of Statistics 26 (1998).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import RidgeClassifier
    >>> from gpuml.multiclass import OneVsOneClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsOneClassifier(RidgeClassifier()).fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    >>> model.plan_.n_fits
    3
    """

    _theirs: Any = sk.OneVsOneClassifier
    estimators_: Any

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **fit_params) -> Self:
        """Fit a model for each pair of classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        with unchanged_on_error(self):
            return self._fit_pairs(taken_apart(X), host_target(y), fit_params)

    def _fit_pairs(self, X, y, fit_params):
        if get_tags(self.estimator).input_tags.pairwise:
            self._theirs.fit(self, X, y, **fit_params)
            self.plan_ = Plan(tuple(one_by_one(X, len(self.estimators_), "X is a kernel")))
            return self
        seen = {}
        if not is_foreign(X):
            options = {"accept_sparse": ["csr", "csc"], "ensure_all_finite": False}
            X, y = validate_data(self, X, y, **options)
            names = ("n_features_in_", "feature_names_in_")
            seen = {name: vars(self)[name] for name in names if name in vars(self)}
        changes = {"estimator": Later(self.estimator), "n_jobs": 1}
        run_around(self, self._theirs.fit, changes, numbers_of(X), y, **fit_params)
        params = fit_params_of(self, self.estimator, None, fit_params)
        codes = np.searchsorted(self.classes_, y)
        self.estimators_, self.plan_ = _fitted(self.estimators_, X, codes, params, self.n_jobs)
        for name, value in (seen or {"n_features_in_": X.shape[1]}).items():
            setattr(self, name, value)
        return self

    def predict(self, X):
        """The class with most votes; sums of decision values break ties.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X)

    def decision_function(self, X):
        """Votes for the classes, plus a term of the decision values that is smaller than a vote.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the library and on the device of X.
        """
        return self._asked("decision_function", X)

    def _asked(self, method, X):
        X = as_array(X)
        if not is_foreign(X) or not hasattr(self, "estimators_"):
            return getattr(self._theirs, method).__get__(self)(X)
        parts = [Numbered(each, X) for each in self.estimators_]
        known = {"estimators_": parts, "n_features_in_": 1, "feature_names_in_": None}
        return ask_parts(self, method, X, known)


def _fitted(
    noted: Sequence[Any], X: Any, codes: np.ndarray, params: dict[str, Any], n_jobs: int | None
) -> tuple[tuple[Any, ...], Plan]:
    """Models of pairs in the order of their classes, and how they were fitted.

    For classes i < j, the first binary digit in which they differ is 0 in i and 1 in j. So one
    column of labels, this digit of each row's class, serves all pairs that differ first in it.
    """
    n_classes = int(codes.max()) + 1
    pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    digits = [(i ^ j).bit_length() - 1 for i, j in pairs]
    models: dict[int, Any] = {}
    steps = []
    for digit in sorted(set(digits), reverse=True):
        own = [k for k, each in enumerate(digits) if each == digit]
        plan, found = _of_digit([noted[k] for k in own], X, (codes >> digit) & 1, params, n_jobs)
        models.update(zip(own, found, strict=True))
        steps += plan.steps
    return tuple(models[k] for k in range(len(pairs))), Plan(tuple(steps))


def _of_digit(waiting, X, labels, params, n_jobs):
    rows = [each.X[:, 0] for each in waiting]
    parts = parts_of_rows(waiting[0].estimator, X, labels, rows, params, n_jobs)

    def alone(s):
        own = waiting[s]
        own.estimator.fit(rows_of(X, rows[s]), own.y, **own.params)
        return own.estimator

    parts.alone = alone
    models = parts.models()
    return parts.plan, models
