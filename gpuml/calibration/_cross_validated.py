"""Probabilities calibrated on held-out rows, with the models of all splits fitted together."""

from copy import copy
from functools import partial
from typing import Any, Self

from sklearn import calibration as sk
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets

from gpuml._arrays import as_array, is_foreign
from gpuml._arrays.threads import threads_of_fit
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context, _num_samples, _routing_enabled
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.model_selection.numbered import (
    Numbered,
    Rehearsed,
    at_rows,
    named,
    numbers_of,
)
from gpuml.model_selection.parts import (
    fit_params_of,
    host_target,
    host_value,
    run_around,
    taken_apart,
)
from gpuml.svm import LinearSVC


class CalibratedClassifierCV(ScoredByAccuracy, Travels, sk.CalibratedClassifierCV):
    r"""Probabilities of a classifier, calibrated on rows that its models were not fitted to.

    A calibrator maps the decision value f of a class to a probability: "sigmoid" is Platt's
    :math:`1 / (1 + \exp(a f + b))` [1]_, "isotonic" a non-decreasing step function [2]_, and
    "temperature" the softmax of all decision values divided by one temperature. Calibrators are
    fitted to the held-out rows of each split, or to those of all splits together.

    If the classifier can be batched, its models of all splits and of all rows are fitted together,
    as in `cross_validate`. Data on a device stays there. Decision values, one for each row and
    class, are calibrated in CPU memory, and the probabilities go back to the device.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The classifier; None is a `gpuml.svm.LinearSVC`. A `FrozenEstimator` is not fitted again:
        all rows are used to calibrate it.
    method : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        The kind of calibrator.
    cv : int, splitter or iterable of index pairs, default=None
        How to split the rows; None is 5 stratified folds.
    n_jobs : int or None, default=None
        Number of workers for classifiers that are fitted one by one.
    ensemble : bool or "auto", default="auto"
        True: average the probabilities of one calibrated model per split. False: one model of all
        rows, with a calibrator that is fitted to the held-out decision values of all splits. "auto"
        is False for a `FrozenEstimator`, and True otherwise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    calibrated_classifiers_ : list
        The calibrated models, as in scikit-learn's class: one per split, or a single one.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    gpuml.model_selection.TunedThresholdClassifierCV : Chooses the threshold of the probabilities.

    References
    ----------
    .. [1] J. Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin
       Classifiers (1999).
    .. [2] B. Zadrozny, C. Elkan, "Transforming classifier scores into accurate multiclass
       probability estimates", KDD (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.calibration import CalibratedClassifierCV
    >>> from gpuml.linear_model import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CalibratedClassifierCV(RidgeClassifier()).fit(X, y)
    >>> model.predict_proba(X[:2]).round(2)
    array([[1.  , 0.  ],
           [0.97, 0.03]])
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params) -> Self:
        """Fit models on training sets, and calibrators on their predictions for held-out rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for calibrators and for models that accept weights.
        **fit_params : dict
            Passed to `fit` of the classifier (or routed, with scikit-learn's metadata routing).

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If a class has fewer rows than there are folds, or for what scikit-learn's class
            rejects.
        """
        estimator = self._get_estimator()
        X, y, sample_weight = taken_apart(X), host_target(y), host_value(sample_weight)
        if isinstance(self.cv, LeaveOneOut):
            return super().fit(X, y)  # which is an error
        frozen = isinstance(estimator, FrozenEstimator)
        labels, names = y, False
        if self.method == "temperature":
            # scikit-learn numbers text only, and takes other labels for numbers of classes.
            check_classification_targets(y)
            encoder = LabelEncoder()
            names, y = _num_samples(y) and isinstance(y[0], str), encoder.fit_transform(y)
        rehearsed = Rehearsed(
            estimator,
            X,
            y if names else labels,
            self.cv,
            # After the checks of scikit-learn's `fit`, which come before its routing.
            partial(fit_params_of, self, estimator, sample_weight, fit_params),
            self.n_jobs,
        )
        changes = {
            "estimator": named(Numbered, estimator)(estimator, X, rehearsed),
            "cv": rehearsed,
            "ensemble": not frozen if self.ensemble == "auto" else self.ensemble,
            "n_jobs": 1,
        }
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        fit = sk.CalibratedClassifierCV.fit
        with threads_of_fit(estimator, X, y):  # SciPy's L-BFGS-B would wait for BLAS's in each step
            run_around(self, fit, changes, numbers_of(X), y, **weighted, **fit_params)
        if self.method == "temperature":
            self.classes_ = encoder.classes_
        for each in self.calibrated_classifiers_:
            each.estimator, each.classes = each.estimator.model, self.classes_
        self.plan_ = rehearsed.plan
        return self

    def predict_proba(self, X):
        """Calibrated probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        X = as_array(X)
        if not is_foreign(X):
            return super().predict_proba(X)
        other = copy(self)
        other.calibrated_classifiers_ = [copy(each) for each in self.calibrated_classifiers_]
        for each in other.calibrated_classifiers_:
            each.estimator = Numbered(each.estimator, X)
        return at_rows(sk.CalibratedClassifierCV.predict_proba(other, numbers_of(X)), X)

    def predict(self, X):
        """The class with the largest calibrated probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        X = as_array(X)
        if not is_foreign(X):
            return super().predict(X)
        host = host_target(self.predict_proba(X))
        return at_rows(self.classes_[host.argmax(axis=1)], X)

    def _get_estimator(self) -> Any:
        """The classifier, or the default one."""
        if self.estimator is not None:
            return self.estimator
        estimator = LinearSVC(random_state=0)
        if _routing_enabled():
            estimator.set_fit_request(sample_weight=True)
        return estimator
