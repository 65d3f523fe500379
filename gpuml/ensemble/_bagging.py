"""Bagging, which fits linear models to all resamples in the same passes over the rows."""

from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn import ensemble as sk
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.validation import require_target, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _check_n_features
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2
from gpuml.model_selection.numbered import InCpuMemory, at_rows, in_cpu_memory
from gpuml.model_selection.parts import (
    Features,
    Resampled,
    columns_of,
    host_target,
    host_value,
    resampled,
    run_around,
)


class _Bagging(Travels):
    """Code that both classes share: scikit-learn draws all resamples, then gpuml fits models."""

    # scikit-learn's class.
    _theirs: Any
    estimators_: Any

    def fit(self, X, y, sample_weight=None, **fit_params) -> Self:
        """Fit a model to each resample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Resamples draw each row with a probability proportional to its weight.
        **fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects.
        """
        X, y, sample_weight = as_array(X), host_target(y), host_value(sample_weight)
        with unchanged_on_error(self):
            if not is_foreign(X):
                return super().fit(X, y, sample_weight, **fit_params)
            self._validate_params()
            require_target(self, y)
            _check_n_features(self, X, reset=True)
            y = np.asarray(y)
            return self._fit(X, y, self.max_samples, sample_weight=sample_weight, **fit_params)

    def _fit(self, X, y, max_samples=None, **others):
        changes = {"n_jobs": 1, "_rows": X}
        # scikit-learn's warm start adds to these lists.
        lists = ("estimators_", "estimators_features_")
        changes.update({name: list(own) for name, own in vars(self).items() if name in lists})
        with config_context(array_api_dispatch=False):  # which asks for the library of `Features`
            run_around(self, self._theirs._fit, changes, Features(X), y, max_samples, **others)
        self.__dict__.pop("_rows", None)
        self._fit_resamples()
        return self

    def _make_estimator(self, append=True, random_state=None):
        # Of what a subclass puts around the estimator too, such as a sampler of classes.
        made = Resampled(super()._make_estimator(False, random_state))
        if append:
            self.estimators_.append(made)
        return made

    def _fit_resamples(self):
        if any(isinstance(each, Resampled) for each in self.estimators_):
            self.estimators_, self.plan_ = resampled(self.estimators_, self.n_jobs)

    def _set_oob_score(self, X, y):
        self._fit_resamples()
        if not is_foreign(self._rows):
            super()._set_oob_score(self._rows, y)
            return
        models = self.estimators_
        self.estimators_ = [InCpuMemory(model) for model in models]
        super()._set_oob_score(Features(self._rows), y)
        self.estimators_ = models

    def _is_on_device(self, X):
        """Whether X is an array that scikit-learn's methods cannot read."""
        if not is_foreign(X):
            return False
        check_is_fitted(self)
        _check_n_features(self, X, reset=False)
        return True

    def _members(self, X):
        """Each model, with the columns of X that it was fitted to."""
        every = np.arange(X.shape[1])
        for model, features in zip(self.estimators_, self.estimators_features_, strict=True):
            yield model, X if np.array_equal(features, every) else columns_of(X, features)


class BaggingClassifier(ScoredByAccuracy, _Bagging, sk.BaggingClassifier):
    """Bagging: the mean of classifiers that are fitted to resamples of the rows.

    The same `random_state` draws the same resamples as in scikit-learn. gpuml passes a resample as
    weights, how often each row was drawn, so that models such as `LogisticRegression` or
    `RidgeClassifier` are fitted to all resamples in the same passes over the rows. If each model
    has its own features, or the classifier shares no passes, models are fitted one by one: see
    `plan_`.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The model to fit to each resample; None is scikit-learn's decision tree.
    n_estimators : int, default=10
        Number of resamples and models.
    max_samples : int, float or None, default=None
        Number (int) or share (float) of the rows to draw; None draws as many rows as X has.
    max_features : int or float, default=1.0
        Number (int) or share (float) of the features to draw for each model.
    bootstrap : bool, default=True
        Whether to draw rows with replacement.
    bootstrap_features : bool, default=False
        Whether to draw features with replacement.
    oob_score : bool, default=False
        Whether to compute an out-of-bag score: each row is predicted by the models that were fitted
        without it.
    warm_start : bool, default=False
        Whether `fit` keeps the models of the last fit and adds new ones.
    n_jobs : int or None, default=None
        Number of workers for models that are fitted one by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples.
    verbose : int, default=0
        How much scikit-learn's code prints.

    Attributes
    ----------
    estimator_ : estimator
        The unfitted model that is copied for each resample.
    estimators_ : list of estimators
        The fitted models.
    estimators_samples_, estimators_features_ : list of ndarrays
        Indices of the rows, and features, that were drawn for each model.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    n_classes_ : int
    oob_score_ : float
        Accuracy of out-of-bag predictions; only with ``oob_score=True``.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes)
        Out-of-bag probabilities, in CPU memory; only with ``oob_score=True``.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BaggingRegressor : Bagging of regressors.

    References
    ----------
    L. Breiman, "Bagging predictors", Machine Learning 24 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.ensemble import BaggingClassifier
    >>> from gpuml.linear_model import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BaggingClassifier(RidgeClassifier(), 20, oob_score=True, random_state=0).fit(X, y)
    >>> print(model.plan_)
    20 fits in 10 passes on numpy:cpu (all candidates together)
    """

    _theirs = sk.BaggingClassifier

    def predict_proba(self, X, **params):
        """Mean probabilities of the models, or shares of their votes if they have none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        X = as_array(X)
        if not self._is_on_device(X):
            return super().predict_proba(X, **params)
        xp = namespace(X)
        own = xp.arange(self.n_classes_, device=place_of(X).device)
        total: Any = 0.0
        for model, known in self._members(X):
            has = hasattr(model, "predict_proba")
            if not has:
                votes = move(as_array(model.predict(known)), place_of(X))
                said = xp.astype(votes[:, None] == own[None, :], xp.float64)
            else:
                said = _of_all_classes(model.predict_proba(known), model.classes_, self.n_classes_)
            total = total + said
        return total / len(self.estimators_)

    def predict(self, X, **params):
        """The class with the largest mean probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        X = as_array(X)
        if not self._is_on_device(X):
            return super().predict(X, **params)
        said = in_cpu_memory(self.predict_proba(X, **params))
        return at_rows(self.classes_.take(said.argmax(axis=1)), X)

    def predict_log_proba(self, X, **params):
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        log_probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        X = as_array(X)
        if not self._is_on_device(X):
            return super().predict_log_proba(X, **params)
        return namespace(X).log(self.predict_proba(X, **params))

    @available_if(lambda bagging: bagging._decides())
    def decision_function(self, X, **params):
        """Mean decision values of the models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X.
        """
        X = as_array(X)
        if not self._is_on_device(X):
            return super().decision_function(X, **params)
        said = sum(model.decision_function(known) for model, known in self._members(X))
        return said / len(self.estimators_)

    def _decides(self):
        models = getattr(self, "estimators_", None) or [self.estimator]
        return callable(models[0].decision_function)  # or raises its error


def _of_all_classes(said, classes, n_classes):
    """Probabilities with a column for each class; 0 for classes that a model has not seen."""
    if said.shape[1] == n_classes:
        return said
    xp = namespace(said)
    spread = np.zeros((said.shape[1], n_classes))
    spread[np.arange(len(classes)), host_target(classes)] = 1.0
    return said @ xp.astype(move(spread, place_of(said)), said.dtype)


class BaggingRegressor(ScoredByR2, _Bagging, sk.BaggingRegressor):
    """Bagging: the mean of regressors that are fitted to resamples of the rows.

    The same `random_state` draws the same resamples as in scikit-learn. gpuml passes a resample as
    weights, how often each row was drawn, so that models such as `Ridge` are fitted to all
    resamples in the same passes over the rows. If each model has its own features, or the regressor
    shares no passes, models are fitted one by one: see `plan_`.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The model to fit to each resample; None is scikit-learn's decision tree.
    n_estimators : int, default=10
        Number of resamples and models.
    max_samples : int, float or None, default=None
        Number (int) or share (float) of the rows to draw; None draws as many rows as X has.
    max_features : int or float, default=1.0
        Number (int) or share (float) of the features to draw for each model.
    bootstrap : bool, default=True
        Whether to draw rows with replacement.
    bootstrap_features : bool, default=False
        Whether to draw features with replacement.
    oob_score : bool, default=False
        Whether to compute an out-of-bag score: each row is predicted by the models that were fitted
        without it.
    warm_start : bool, default=False
        Whether `fit` keeps the models of the last fit and adds new ones.
    n_jobs : int or None, default=None
        Number of workers for models that are fitted one by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples.
    verbose : int, default=0
        How much scikit-learn's code prints.

    Attributes
    ----------
    estimator_ : estimator
        The unfitted model that is copied for each resample.
    estimators_ : list of estimators
        The fitted models.
    estimators_samples_, estimators_features_ : list of ndarrays
        Indices of the rows, and features, that were drawn for each model.
    oob_score_ : float
        R^2 of out-of-bag predictions; only with ``oob_score=True``.
    oob_prediction_ : ndarray of shape (n_samples,)
        Out-of-bag predictions, in CPU memory; only with ``oob_score=True``.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BaggingClassifier : Bagging of classifiers.

    References
    ----------
    L. Breiman, "Bagging predictors", Machine Learning 24 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.ensemble import BaggingRegressor
    >>> from gpuml.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BaggingRegressor(Ridge(0.01), 20, oob_score=True, random_state=0).fit(X, y)
    >>> round(model.oob_score_, 2)
    0.49
    >>> print(model.plan_)
    20 fits in 10 passes on numpy:cpu (all candidates together)
    """

    _theirs = sk.BaggingRegressor

    def predict(self, X, **params):
        """Mean predictions of the models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X.
        """
        X = as_array(X)
        if not self._is_on_device(X):
            return super().predict(X, **params)
        said = sum(model.predict(known) for model, known in self._members(X))
        return said / len(self.estimators_)
