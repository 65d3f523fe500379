"""A separate model for each column of a target, with all models fitted together."""

from sklearn import multioutput as sk
from sklearn.utils.metaestimators import available_if

from gpuml._persistence.travel import Travels
from gpuml.metrics.own_scores import ScoredByR2
from gpuml.model_selection.columns import ByColumn, answers
from gpuml.model_selection.numbered import in_cpu_memory
from gpuml.model_selection.one_fit import shallow
from gpuml.model_selection.parts import host_target, host_value


class MultiOutputRegressor(ScoredByR2, ByColumn, Travels, sk.MultiOutputRegressor):
    """A regressor for each column of the target.

    Regressors that share passes over the rows, such as `Ridge` and `Lasso`, are fitted together;
    others are fitted one by one: see `plan_`. Data on a device stays there.

    Parameters
    ----------
    estimator : estimator
        The regressor of each column.
    n_jobs : int or None, default=None
        Number of workers for regressors that are fitted one by one.

    Attributes
    ----------
    estimators_ : list of n_targets estimators
        The fitted models.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    MultiOutputClassifier : A classifier for each column.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.multioutput import MultiOutputRegressor
    >>> X, y = load_linnerud(return_X_y=True)
    >>> model = MultiOutputRegressor(Ridge()).fit(X, y)
    >>> model.predict(X[:1]).round(1)
    array([[176.2,  35.1,  57.1]])
    >>> model.plan_.steps[0].n_fits
    3
    """

    _theirs = sk.MultiOutputRegressor

    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit a model to each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **fit_params : dict
            Passed to `fit` of each model.

        Returns
        -------
        self : estimator
        """
        return self._fit_columns(X, y, sample_weight, **fit_params)

    @available_if(answers("partial_fit"))
    def partial_fit(self, X, y, sample_weight=None, **partial_fit_params):
        """Update a model of each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **partial_fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        y, sample_weight = host_target(y), host_value(sample_weight)
        super().partial_fit(X, y, sample_weight, **partial_fit_params)  # which returns None
        return self

    def predict(self, X):
        """Predict all columns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_targets)
            In the library and on the device of X.
        """
        return self._asked("predict", X)


class MultiOutputClassifier(ByColumn, Travels, sk.MultiOutputClassifier):
    """A classifier for each column of the target.

    If all columns have two classes, classifiers that share passes over the rows, such as
    `LogisticRegression`, `LinearSVC` and `RidgeClassifier`, are fitted together; others are fitted
    one by one: see `plan_`. Data on a device stays there.

    Parameters
    ----------
    estimator : estimator
        The classifier of each column.
    n_jobs : int or None, default=None
        Number of workers for classifiers that are fitted one by one.

    Attributes
    ----------
    estimators_ : list of n_outputs estimators
        The fitted models.
    classes_ : list of n_outputs ndarrays
        Sorted labels of each column, in CPU memory.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    MultiOutputRegressor : A regressor for each column.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.multioutput import MultiOutputClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> labels = np.stack([y == 0, X[:, 0] > 6], axis=1).astype(int)
    >>> model = MultiOutputClassifier(LogisticRegression()).fit(X[:, 1:], labels)
    >>> model.predict(X[:2, 1:])
    array([[1, 0],
           [1, 0]])
    """

    _theirs = sk.MultiOutputClassifier

    def fit(self, X, Y, sample_weight=None, **fit_params):
        """Fit a model to each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        Y : array-like of shape (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **fit_params : dict
            Passed to `fit` of each model.

        Returns
        -------
        self : estimator
        """
        self._fit_columns(X, Y, sample_weight, **fit_params)
        self.classes_ = [in_cpu_memory(each.classes_) for each in self.estimators_]
        return self

    @available_if(answers("partial_fit"))
    def partial_fit(self, X, y, classes=None, sample_weight=None, **partial_fit_params):
        """Update a model of each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)
        classes : list of n_outputs array-likes of shape (n_classes,), default=None
            All labels of each column; the first call needs them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **partial_fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        y, sample_weight = host_target(y), host_value(sample_weight)
        classes = None if classes is None else [host_value(each) for each in classes]
        return super().partial_fit(X, y, classes, sample_weight, **partial_fit_params)

    def predict(self, X):
        """Predict all columns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples, n_outputs)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X)

    @available_if(answers("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of the classes of each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : list of n_outputs arrays of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        return self._asked("predict_proba", X)

    def score(self, X, y):
        """Return the share of rows of which all labels are right.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)

        Returns
        -------
        score : float
        """
        asked = shallow(self)
        asked.predict = lambda X: host_target(self.predict(X))
        return sk.MultiOutputClassifier.score(asked, X, host_target(y))
