"""Chains: the model of each target sees the targets before it, or what was predicted of them."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import multioutput as sk
from sklearn.base import clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from gpuml._arrays import as_array, is_foreign, is_sparse, move, namespace, place_of
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.model_selection.candidates import Plan, Step
from gpuml.model_selection.numbered import (
    Numbered,
    Rehearsed,
    ask_parts,
    numbered_rows,
    numbers_of,
)
from gpuml.model_selection.parts import host_target, one_by_one, run_around, taken_apart


class _Link(Numbered):
    """Takes the place of the estimator of a chain, where X are numbers of rows (n, 1).

    Behind them stand targets, or what was predicted of them, which are features (n, 1 + k).
    """

    def __init__(self, estimator: Any, X: Any, chain: "_Fitting | None" = None):
        super().__init__(estimator, X)
        self.chain = chain

    def __sklearn_clone__(self) -> "_Link":
        return _Link(clone(self.estimator), self.X, self.chain)

    def rows(self, numbers: Any) -> Any:
        """The rows with these numbers, and the features behind them."""
        numbers, beside = np.asarray(numbers)[:, 0].astype(np.intp), np.asarray(numbers)[:, 1:]
        return _beside(numbered_rows(self.X, numbers), beside)

    def noted(self, X: Any, y: Any = None, **params: Any) -> "_Link":
        """Fit the model, or take that of a training part."""
        assert self.chain is not None
        self.known = self.chain.fitted(self, np.asarray(X), y, params)
        return self


class _Fitting:
    """The models of a chain during the fit; it is the splitter of each link too."""

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
        return model  # which `fit` of an estimator of the user's own may not return

    def _all_rows(self, numbers):
        """All rows, with the further features of a link; later links have more."""
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
        """How many there are."""
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
    """Rows with some more features, where the rows are."""
    if features.shape[1] == 0:
        return X
    if is_sparse(X):
        return sparse.hstack((X, features), format="csr")
    if not is_foreign(X):
        return np.hstack((X, features))
    xp = namespace(X)
    return xp.concat([X, xp.astype(move(features, place_of(X)), X.dtype)], axis=1)


class _Chain(Travels):
    """Chains by scikit-learn's own `fit`, with models of rows wherever those are."""

    # scikit-learn's class.
    _theirs: Any
    estimator: Any
    estimators_: Any
    cv: Any

    def _fit_chain(self, X, Y, params):
        X, Y = taken_apart(X), host_target(Y)
        seen: dict[str, Any] = {}
        if not is_foreign(X):
            X, Y = validate_data(self, X, Y, multi_output=True, accept_sparse=True)
            X = X.tocsr() if sparse.issparse(X) else X
            names = ("n_features_in_", "feature_names_in_")
            seen = {name: vars(self)[name] for name in names if name in vars(self)}
        n_links = np.shape(Y)[1] if np.ndim(Y) == 2 else 1
        chain = _Fitting(X, n_links, self.cv)
        cv = None if self.cv is None else chain
        changes = {"estimator": _Link(self.estimator, X, chain), "cv": cv}
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
        """Predict all targets, link after link.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_outputs)
            In the library and on the device of X.
        """
        return self._asked("predict", X)


class RegressorChain(_Chain, sk.RegressorChain):
    """A chain of regressors: each sees the features and the targets before its own.

    Rows on a device stay there. With `cv` the features are what was predicted of the targets before
    without the row: the models of all folds and that of all rows are fitted together, link after
    link, where the regressor can: see `plan_`.

    Parameters
    ----------
    estimator : estimator
    order : array-like of shape (n_outputs,) or "random", default=None
        Of the targets; None is that of the columns.
    cv : int, splitter or iterable of index pairs, default=None
        None takes the targets themselves as features of the links behind.
    random_state : int, RandomState instance or None, default=None
        Of a random order.
    verbose : bool, default=False
        Whether each link is told of.

    Attributes
    ----------
    estimators_ : list of n_outputs estimators
    order_ : list or ndarray of n_outputs ints
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ClassifierChain : The same for labels.
    MultiOutputRegressor : Regressors that do not see other targets.

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


class ClassifierChain(_Chain, sk.ClassifierChain):
    """A chain of binary classifiers: each sees the features and the labels before its own.

    Rows on a device stay there. With `cv` the features are what was predicted of the labels before
    without the row: the models of all folds and that of all rows are fitted together, link after
    link, where the classifier can: see `plan_`.

    Parameters
    ----------
    estimator : estimator
    order : array-like of shape (n_outputs,) or "random", default=None
        Of the labels; None is that of the columns.
    cv : int, splitter or iterable of index pairs, default=None
        None takes the labels themselves as features of the links behind.
    chain_method : str or list of str, default="predict"
        What links behind are given of those before; of a list the first method that there is.
    random_state : int, RandomState instance or None, default=None
        Of a random order.
    verbose : bool, default=False
        Whether each link is told of.

    Attributes
    ----------
    classes_ : list of n_outputs ndarrays
    estimators_ : list of n_outputs estimators
    order_ : list or ndarray of n_outputs ints
    chain_method_ : str
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    RegressorChain : The same for numbers.
    MultiOutputClassifier : Classifiers that do not see other labels.

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
        """Probabilities that rows have the labels.

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
