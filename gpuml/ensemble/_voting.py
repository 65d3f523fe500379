"""The mean, or the vote, of several models; also for data on a device."""

from typing import Any, Self

from sklearn import ensemble as sk
from sklearn.utils.metaestimators import available_if

from gpuml._arrays import as_array, is_foreign
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2
from gpuml.model_selection.numbered import Numbered, ask_parts
from gpuml.model_selection.parts import host_target, host_value


class _Voting(Travels):
    """Code that both classes share: data on a device stays there, predictions go to CPU memory."""

    # scikit-learn's class.
    _theirs: Any

    def fit(self, X, y, **fit_params) -> Self:
        """Fit all models.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            `sample_weight`, passed to all models; with scikit-learn's metadata routing, all
            parameters that the models request.

        Returns
        -------
        self : estimator
        """
        given = {name: host_value(value) for name, value in fit_params.items()}
        with unchanged_on_error(self):
            return super().fit(as_array(X), host_target(y), **given)

    def _asked(self, method, X):
        """The result of scikit-learn's method, computed from the predictions of the models."""
        X = as_array(X)
        if not is_foreign(X):
            return getattr(self._theirs, method).__get__(self)(X)
        parts = [Numbered(each, X) for each in getattr(self, "estimators_", [])]
        return ask_parts(self, method, X, {"estimators_": parts} if parts else {})

    def predict(self, X):
        """The mean of the predictions (regressor), or the class that wins the vote (classifier).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X)

    def transform(self, X):
        """The predictions of all models.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        said : array of shape (n_samples, n_models), or the shape that scikit-learn's class returns
            In the library and on the device of X.
        """
        return self._asked("transform", X)


class VotingClassifier(ScoredByAccuracy, _Voting, sk.VotingClassifier):
    """Majority vote of several classifiers, or the mean of their probabilities.

    The models are fitted one by one, because they differ. Data on a device stays there; predictions
    go to CPU memory, where votes are counted.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Names and models; "drop" instead of a model leaves it out.
    voting : {"hard", "soft"}, default="hard"
        "hard" predicts the label with the most votes, "soft" the class with the largest mean
        probability.
    weights : array-like of shape (n_models,), default=None
        Weights of the models; None weights them equally.
    n_jobs : int or None, default=None
        Number of workers for the fits; None is 1.
    flatten_transform : bool, default=True
        Whether `transform` of a "soft" classifier joins the probabilities of all models in one
        matrix, instead of stacking them along a new axis.
    verbose : bool, default=False
        Whether to print the time of each fit.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted models.
    named_estimators_ : Bunch
        The same by name.
    le_ : LabelEncoder
        Encodes the labels as 0, 1, ..., which the models are fitted to.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    StackingClassifier : Combines the models by a final classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.ensemble import VotingClassifier
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> models = [("logistic", LogisticRegression()), ("bayes", GaussianNB())]
    >>> VotingClassifier(models, voting="soft").fit(X, y).predict(X[:2])
    array([0, 0])
    """

    _theirs = sk.VotingClassifier

    @available_if(lambda voting: voting._check_voting())
    def predict_proba(self, X):
        """Weighted mean of the probabilities of the models; only with ``voting="soft"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        return self._asked("predict_proba", X)


class VotingRegressor(ScoredByR2, _Voting, sk.VotingRegressor):
    """The mean of several regressors.

    The models are fitted one by one, because they differ. Data on a device stays there; predictions
    go to CPU memory, and their mean goes back to the device.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Names and models; "drop" instead of a model leaves it out.
    weights : array-like of shape (n_models,), default=None
        Weights of the models; None weights them equally.
    n_jobs : int or None, default=None
        Number of workers for the fits; None is 1.
    verbose : bool, default=False
        Whether to print the time of each fit.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted models.
    named_estimators_ : Bunch
        The same by name.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    StackingRegressor : Combines the models by a final regressor.
    select_ensemble : Choose models to average.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.ensemble import VotingRegressor
    >>> from gpuml.linear_model import Lasso, Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = VotingRegressor([("ridge", Ridge(0.1)), ("lasso", Lasso(0.1))]).fit(X, y)
    >>> model.predict(X[:2]).round(1)
    array([201.3,  73.6])
    """

    _theirs = sk.VotingRegressor
