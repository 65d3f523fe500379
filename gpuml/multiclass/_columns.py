"""Binary classifiers for classes or bits of a code, fitted together as columns of one target."""

from typing import Any, Self

from sklearn import multiclass as sk
from sklearn.utils.metaestimators import available_if

from gpuml._persistence.travel import Travels
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.model_selection.columns import ByColumn, answers
from gpuml.model_selection.parts import host_target, host_value


class OneVsRestClassifier(ScoredByAccuracy, ByColumn, Travels, sk.OneVsRestClassifier):
    """One-vs-rest: a binary classifier for each class, or for each label of multilabel targets.

    Classifiers that share passes over the rows, such as `LogisticRegression`, `LinearSVC` and
    `RidgeClassifier`, are fitted together: the classes are columns of one target. Others are fitted
    one by one: see `plan_`. Data on a device stays there; decision values go to CPU memory, where
    the classes are chosen.

    Parameters
    ----------
    estimator : estimator
        A classifier, or a regressor whose predictions serve as decision values.
    n_jobs : int or None, default=None
        Number of workers for classifiers that are fitted one by one.
    verbose : int, default=0
        Whether scikit-learn's code prints its progress.

    Attributes
    ----------
    estimators_ : list of n_classes estimators
        The fitted classifiers; for two classes, only that of the second class. If all rows have a
        label, or none has it, its classifier is scikit-learn's constant predictor.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    label_binarizer_ : LabelBinarizer
        Makes the columns of the target from y.
    n_classes_ : int
    multilabel_ : bool
        Whether y had several labels per row.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OutputCodeClassifier : A classifier for each bit of a code.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.multiclass import OneVsRestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    >>> model.plan_.steps[0].n_fits
    3
    """

    _theirs = sk.OneVsRestClassifier

    def fit(self, X, y, **fit_params) -> Self:
        """Fit a model for each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or indicators of labels (n_samples, n_classes)
        **fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        return self._fit_columns(X, y, **fit_params)

    @available_if(answers("partial_fit"))
    def partial_fit(self, X, y, classes=None, **partial_fit_params):
        """Update a model for each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or indicators of labels (n_samples, n_classes)
        classes : array-like of shape (n_classes,), default=None
            All labels; the first call needs them.
        **partial_fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        y, classes = host_target(y), host_value(classes)
        return super().partial_fit(X, y, classes, **partial_fit_params)

    def predict(self, X):
        """The class of the largest decision value, or all labels with values above the threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X)

    @available_if(answers("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of the classes; they sum to 1 unless rows can have several labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        return self._asked("predict_proba", X)

    @available_if(answers("decision_function"))
    def decision_function(self, X):
        """Decision values of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the library and on the device of X.
        """
        return self._asked("decision_function", X)


class OutputCodeClassifier(ScoredByAccuracy, ByColumn, Travels, sk.OutputCodeClassifier):
    """Output codes: a binary classifier for each bit of a code; the class of the nearest code wins.

    The same `random_state` draws the same codes as in scikit-learn. Classifiers that share passes
    over the rows, such as `LogisticRegression`, `LinearSVC` and `RidgeClassifier`, are fitted
    together: the bits are columns of one target. Others are fitted one by one: see `plan_`. Data on
    a device stays there; decision values go to CPU memory, where they are compared with the codes.

    Parameters
    ----------
    estimator : estimator
        The classifier of each bit.
    code_size : float > 0, default=1.5
        Number of bits per class.
    random_state : int, RandomState instance or None, default=None
        Seed of the codes.
    n_jobs : int or None, default=None
        Number of workers for classifiers that are fitted one by one.

    Attributes
    ----------
    estimators_ : list of int(n_classes * code_size) estimators
        The fitted classifiers.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    code_book_ : ndarray of shape (n_classes, len(estimators_))
        The code of each class.
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
    T. G. Dietterich, G. Bakiri, "Solving multiclass learning problems via error-correcting output
    codes", Journal of Artificial Intelligence Research 2 (1995).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.multiclass import OutputCodeClassifier
    >>> from gpuml.svm import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OutputCodeClassifier(LinearSVC(), code_size=3, random_state=0).fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    """

    _theirs: Any = sk.OutputCodeClassifier

    def fit(self, X, y, **fit_params) -> Self:
        """Fit a model for each bit.

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
        return self._fit_columns(X, y, **fit_params)

    def predict(self, X):
        """The class of the nearest code.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X)
