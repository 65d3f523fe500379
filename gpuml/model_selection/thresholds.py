"""Decision thresholds of classifiers: given, or tuned on held-out rows."""

from functools import partial
from typing import Any, Self

from sklearn import model_selection as sk

from gpuml._arrays import as_array, is_foreign
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.model_selection.numbered import Numbered, Rehearsed, ask_parts, named, numbers_of
from gpuml.model_selection.parts import (
    fit_params_of,
    host_target,
    host_value,
    run_around,
    taken_apart,
)


class _Threshold(ScoredByAccuracy, Travels):
    """Shared parts: rows on a device stay there, decision values go to CPU memory."""

    # scikit-learn's class
    _theirs: Any
    estimator_: Any

    def predict(self, X):
        """The second class, or `pos_label`, where the decision value is above the threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        X = as_array(X)
        if not is_foreign(X):
            return super().predict(X)
        own = getattr(self, "estimator_", self.estimator)
        return ask_parts(self, "predict", X, {"estimator_": Numbered(own, X)})


class FixedThresholdClassifier(_Threshold, sk.FixedThresholdClassifier):
    """A binary classifier with a given decision threshold.

    Data on a device stays there; decision values are compared with the threshold in CPU memory.

    Parameters
    ----------
    estimator : estimator
        A binary classifier, fitted or not.
    threshold : "auto" or float, default="auto"
        Values above it predict the positive class. "auto" is 0.5 for probabilities, and 0 for
        decision values.
    pos_label : int, float, bool, str or None, default=None
        The positive class; None is the second of the sorted classes.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        What to compare with the threshold. "auto" is "predict_proba", if the classifier has it.

    Attributes
    ----------
    estimator_ : estimator
    classes_ : array of shape (2,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    TunedThresholdClassifierCV : Chooses the threshold by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.linear_model import RidgeClassifier
    >>> from gpuml.model_selection import FixedThresholdClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FixedThresholdClassifier(RidgeClassifier(), threshold=-0.2).fit(X, y)
    >>> int(model.predict(X).sum())
    393
    """

    _theirs = sk.FixedThresholdClassifier

    def fit(self, X, y, **params) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            Routed to the classifier, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        return super().fit(as_array(X), host_target(y), **params)


class TunedThresholdClassifierCV(_Threshold, sk.TunedThresholdClassifierCV):
    """A binary classifier whose decision threshold is tuned by cross-validation.

    The models of all splits, and that of all rows, are fitted together if possible, as in
    `cross_validate`. Data on a device stays there; decision values of held-out rows are scored in
    CPU memory.

    Parameters
    ----------
    estimator : estimator
    scoring : str or callable, default="balanced_accuracy"
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        What to compare with the threshold. "auto" is "predict_proba", if the classifier has it.
    thresholds : int or array-like, default=100
        Number of thresholds to try, evenly between the smallest and the largest value, or a list of
        thresholds.
    cv : int, float, splitter, iterable of index pairs, "prefit" or None, default=None
        None is 5 stratified folds. A float is the share of the rows that a single split holds out.
        "prefit", with ``refit=False``, uses a fitted classifier.
    refit : bool, default=True
        Whether to fit the classifier to all rows in the end.
    n_jobs : int or None, default=None
        Workers for classifiers that are fitted one by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the split if `cv` is a float.
    store_cv_results : bool, default=False
        Whether to keep the scores of all thresholds.

    Attributes
    ----------
    estimator_ : estimator
    best_threshold_, best_score_ : float
    cv_results_ : dict of ndarrays
        "thresholds" and "scores", in CPU memory; with ``store_cv_results=True``.
    classes_ : array of shape (2,)
    plan_ : Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    FixedThresholdClassifier : Use a given threshold.
    gpuml.calibration.CalibratedClassifierCV : Calibrate probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.linear_model import RidgeClassifier
    >>> from gpuml.model_selection import TunedThresholdClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TunedThresholdClassifierCV(RidgeClassifier()).fit(X, y)
    >>> print(round(model.best_score_, 2))
    0.96
    >>> print(model.plan_)
    5 fits in 1 pass on numpy:cpu (all candidates together)
    """

    _theirs = sk.TunedThresholdClassifierCV

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **params) -> Self:
        """Fit the models of the training sets, and find the threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            Routed to the classifier, the splitter and the scorer, with scikit-learn's metadata
            routing.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If there are not two classes, if the classifier predicts the same for all rows, or for
            input that scikit-learn's class rejects.
        """
        X, y = taken_apart(X), host_target(y)
        params = {name: host_value(value) for name, value in params.items()}
        stand_in = named(Numbered, self.estimator)
        if isinstance(self.cv, str):
            changes: dict[str, Any] = {"estimator": stand_in(self.estimator, X), "n_jobs": 1}
            run_around(self, self._theirs.fit, changes, numbers_of(X), y, **params)
            self.estimator_ = self.estimator_.model
            return self
        cv: Any = self.cv
        if isinstance(cv, float) and 0 < cv < 1:
            cv = sk.StratifiedShuffleSplit(1, test_size=cv, random_state=self.random_state)
        # After the checks of scikit-learn's `fit`, which come before its routing.
        given = partial(fit_params_of, self, self.estimator, None, params)
        rehearsed = Rehearsed(self.estimator, X, y, cv, given, self.n_jobs)
        changes = {
            "estimator": stand_in(self.estimator, X, rehearsed),
            "cv": rehearsed,
            "n_jobs": 1,
        }
        run_around(self, self._theirs.fit, changes, numbers_of(X), y, **params)
        self.estimator_ = self.estimator_.model
        self.plan_ = rehearsed.plan
        return self
