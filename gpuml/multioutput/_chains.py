"""Chains: the features of each model include the earlier targets, or predictions of them."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import multioutput as sk
from sklearn.base import clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from gpuml._arrays import as_array, is_foreign, is_sparse, move, namespace, place_of
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2
from gpuml.model_selection.candidates import Plan, Step
from gpuml.model_selection.numbered import (
    Numbered,
    Rehearsed,
    ask_parts,
    named,
    numbered_rows,
    numbers_of,
)
from gpuml.model_selection.parts import host_target, one_by_one, run_around, taken_apart


class _Link(Numbered):
    """Replaces the estimator of a chain; its X (n, 1 + k) has row numbers in the first column.

    The other k columns are further features: earlier targets, or predictions of them.
    """

    def __init__(self, estimator: Any, X: Any, chain: "_Fitting | None" = None):
        super().__init__(estimator, X)
        self.chain = chain

    def __sklearn_clone__(self) -> "_Link":
        return type(self)(clone(self.estimator), self.X, self.chain)

    def rows(self, numbers: Any) -> Any:
        """The rows with these numbers, with the further features appended."""
        numbers, beside = np.asarray(numbers)[:, 0].astype(np.intp), np.asarray(numbers)[:, 1:]
        return _beside(numbered_rows(self.X, numbers), beside)

    def noted(self, X: Any, y: Any = None, **params: Any) -> "_Link":
        """Fit the model, or look up that of a training part."""
        assert self.chain is not None
        self.known = self.chain.fitted(self, np.asarray(X), y, params)
        return self


class _Fitting:
    """The models of a chain during the fit; also the splitter of each link."""

    def __init__(self, X: Any, n_links: int, cv: Any):
        self.X, self.n_links, self.cv = X, n_links, cv
        self.steps: list[Step] = []
        self._rehearsed: Rehearsed | None = None
        self._n_alone = 0
        self._wide: np.ndarray | None = None

    def fitted(self, link: _Link, numbers: np.ndarray, y: Any, params: dict[str, Any]) -> Any:
        """The model of some rows."""
        whole, n_before = len(numbers) == self.X.shape[0], numbers.shape[1] - 1
        last = n_before == self.n_links - 1
        if whole and self.cv is not None and not last:
            self._end_link()
            rows, classifier = self._all_rows(numbers), is_classifier(link.estimator)
            self._rehearsed = Rehearsed(
                link.estimator, rows, y, self.cv, {}, None, classifier=classifier
            )
            if not params:
                return self._rehearsed.model(np.arange(len(numbers)))
        elif not whole and self._rehearsed is not None:
            return self._rehearsed.model(numbers[:, 0].astype(np.intp))
        self._n_alone += 1
        model = clone(link.estimator)
        model.fit(self._all_rows(numbers) if whole else link.rows(numbers), y, **params)
        return model  # a user's own `fit` may not return it

    def _all_rows(self, numbers):
        """All rows with the further features of a link; each link has one more than the last."""
        X, features = self.X, numbers[:, 1:]
        if is_foreign(X) or is_sparse(X):
            return _beside(X, features)
        p, k = X.shape[1], features.shape[1]
        if self._wide is None:
            kind = np.result_type(X, features)
            self._wide = np.empty((len(X), p + self.n_links - 1), dtype=kind)
            self._wide[:, :p] = X
        if k == 0:
            return X
        self._wide[:, p + k - 1] = features[:, -1]
        return self._wide[:, : p + k]

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        """Splits of the link that was fitted last."""
        assert self._rehearsed is not None
        return self._rehearsed.split()

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of splits."""
        assert self._rehearsed is not None
        return self._rehearsed.get_n_splits()

    def __deepcopy__(self, memo: Any) -> "_Fitting":
        return self

    def _end_link(self):
        if self._rehearsed is not None:
            self.steps += self._rehearsed.plan.steps

    @property
    def plan(self) -> Plan:
        """How the models were fitted."""
        self._end_link()
        why = "each model of a chain sees other features"
        alone = one_by_one(self.X, self._n_alone, why) if self._n_alone else []
        return Plan((*self.steps, *alone))


def _beside(X, features):
    """Rows with further features appended, on the device of the rows."""
    if features.shape[1] == 0:
        return X
    if is_sparse(X):
        return sparse.hstack((X, features), format="csr")
    if not is_foreign(X):
        return np.hstack((X, features))
    xp = namespace(X)
    return xp.concat([X, xp.astype(move(features, place_of(X)), X.dtype)], axis=1)


class _Chain(Travels):
    """Chains fitted by scikit-learn's own `fit`, with models that may be fitted on a device."""

    # scikit-learn's class.
    _theirs: Any
    estimator: Any
    estimators_: Any
    cv: Any

    def _fit_chain(self, X, Y, params):
        with unchanged_on_error(self):
            return self._fit_links(taken_apart(X), host_target(Y), params)

    def _fit_links(self, X, Y, params):
        seen: dict[str, Any] = {}
        if not is_foreign(X):
            X, Y = validate_data(self, X, Y, multi_output=True, accept_sparse=True)
            X = X.tocsr() if sparse.issparse(X) else X
            names = ("n_features_in_", "feature_names_in_")
            seen = {name: vars(self)[name] for name in names if name in vars(self)}
        n_links = np.shape(Y)[1] if np.ndim(Y) == 2 else 1
        chain = _Fitting(X, n_links, self.cv)
        cv = None if self.cv is None else chain
        changes = {"estimator": named(_Link, self.estimator)(self.estimator, X, chain), "cv": cv}
        run_around(self, self._theirs.fit, changes, numbers_of(X), Y, **params)
        self.estimators_ = [link.known for link in self.estimators_]
        self.plan_ = chain.plan
        for name, value in (seen or {"n_features_in_": X.shape[1]}).items():
            setattr(self, name, value)
        return self

    def _asked(self, method, X):
        X = as_array(X)
        if not is_foreign(X) or not hasattr(self, "estimators_"):
            return getattr(self._theirs, method).__get__(self)(X)
        links = [_Link(each, X) for each in self.estimators_]
        known = {"estimators_": links, "n_features_in_": 1, "feature_names_in_": None}
        return ask_parts(self, method, X, known)

    def predict(self, X):
        """Predict all targets, one link after the other.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_outputs)
            In the library and on the device of X.
        """
        return self._asked("predict", X)


class RegressorChain(ScoredByR2, _Chain, sk.RegressorChain):
    """A chain of regressors: each also uses the targets of the earlier ones as features.

    Data on a device stays there. With `cv`, `fit` uses out-of-fold predictions of the earlier
    targets as features, instead of the targets. If the regressor can be batched, the models of all
    folds and of all rows are then fitted together for each link in turn: see `plan_`.

    Parameters
    ----------
    estimator : estimator
        The regressor of each target.
    order : array-like of shape (n_outputs,) or "random", default=None
        Order of the targets in the chain; None is the order of the columns of Y.
    cv : int, splitter or iterable of index pairs, default=None
        How to split the rows for out-of-fold predictions. None uses the targets themselves as
        features of later links.
    random_state : int, RandomState instance or None, default=None
        Seed of a random order.
    verbose : bool, default=False
        Whether to print a line per link.

    Attributes
    ----------
    estimators_ : list of n_outputs estimators
        The fitted models, in the order of the chain.
    order_ : list or ndarray of n_outputs ints
        The column of Y that each link predicts.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ClassifierChain : A chain of classifiers.
    MultiOutputRegressor : Regressors that do not use other targets.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.multioutput import RegressorChain
    >>> X, y = load_linnerud(return_X_y=True)
    >>> RegressorChain(Ridge(), cv=3).fit(X, y).predict(X[:1]).shape
    (1, 3)
    """

    _theirs: Any = sk.RegressorChain

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, Y, **fit_params) -> Self:
        """Fit a model for each target.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        Y : array-like of shape (n_samples, n_outputs)
        **fit_params : dict
            Passed to `fit` of each model.

        Returns
        -------
        self : estimator
        """
        return self._fit_chain(X, Y, fit_params)


def _answers(method):
    def check(chain):
        return hasattr(chain.estimator, method) or hasattr(chain.estimators_[0], method)

    return check


class ClassifierChain(ScoredByAccuracy, _Chain, sk.ClassifierChain):
    """A chain of binary classifiers: each also uses the labels of the earlier ones as features.

    Data on a device stays there. With `cv`, `fit` uses out-of-fold predictions of the earlier
    labels as features, instead of the labels. If the classifier can be batched, the models of all
    folds and of all rows are then fitted together for each link in turn: see `plan_`.

    Parameters
    ----------
    estimator : estimator
        The classifier of each label.
    order : array-like of shape (n_outputs,) or "random", default=None
        Order of the labels in the chain; None is the order of the columns of Y.
    cv : int, splitter or iterable of index pairs, default=None
        How to split the rows for out-of-fold predictions. None uses the labels themselves as
        features of later links.
    chain_method : str or list of str, default="predict"
        The method of earlier links whose output is a feature of later ones; of a list, the first
        method that the classifier has.
    random_state : int, RandomState instance or None, default=None
        Seed of a random order.
    verbose : bool, default=False
        Whether to print a line per link.

    Attributes
    ----------
    classes_ : list of n_outputs ndarrays
        Sorted values of each label.
    estimators_ : list of n_outputs estimators
        The fitted models, in the order of the chain.
    order_ : list or ndarray of n_outputs ints
        The column of Y that each link predicts.
    chain_method_ : str
        The method whose output later links get.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    RegressorChain : A chain of regressors.
    MultiOutputClassifier : Classifiers that do not use other labels.

    References
    ----------
    J. Read, B. Pfahringer, G. Holmes, E. Frank, "Classifier chains for multi-label classification",
    Machine Learning 85 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.multioutput import ClassifierChain
    >>> X, y = load_iris(return_X_y=True)
    >>> labels = np.stack([y == 0, X[:, 0] > 6], axis=1).astype(int)
    >>> ClassifierChain(LogisticRegression(), cv=3).fit(X[:, 1:], labels).predict(X[:2, 1:])
    array([[1., 0.],
           [1., 0.]])
    """

    _theirs: Any = sk.ClassifierChain

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, Y, **fit_params) -> Self:
        """Fit a model for each label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        Y : array-like of shape (n_samples, n_outputs)
        **fit_params : dict
            Routed to the models, with scikit-learn's metadata routing.

        Returns
        -------
        self : estimator
        """
        return self._fit_chain(X, Y, fit_params)

    @available_if(_answers("predict_proba"))
    def predict_proba(self, X):
        """Probability of each label being 1.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_outputs)
            In the library and on the device of X.
        """
        return self._asked("predict_proba", X)

    def predict_log_proba(self, X):
        """Logarithms of the probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_outputs)
            In the library and on the device of X.
        """
        said = self.predict_proba(X)
        return namespace(said).log(said) if is_foreign(said) else np.log(said)

    @available_if(_answers("decision_function"))
    def decision_function(self, X):
        """Decision values of the links.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_outputs)
            In the library and on the device of X.
        """
        return self._asked("decision_function", X)
